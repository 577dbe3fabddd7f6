// Computes the part of a breakdown that a buffer's bytes belong to.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

inline void add_to_breakdown(Breakdown& breakdown, Role role, int64_t bytes) {
  switch (role) {
    case Role::parameter:
      breakdown.parameters += bytes;
      break;
    case Role::gradient:
      breakdown.gradients += bytes;
      break;
    case Role::optimizer_state:
      breakdown.optimizer_state += bytes;
      break;
    case Role::activation:
    case Role::temporary:
      breakdown.activations += bytes;
      break;
    case Role::input:
      breakdown.inputs += bytes;
      break;
    case Role::workspace:
      breakdown.workspace += bytes;
      break;
  }
}

}  // namespace plimsoll
