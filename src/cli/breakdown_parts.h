// Lists the parts of a breakdown of memory by name.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll::cli {

/// Calls `visit("parameters", &Breakdown::parameters)` and so on for every part.
template <typename Visit>
void for_each_part(Visit&& visit) {
  visit("parameters", &Breakdown::parameters);
  visit("gradients", &Breakdown::gradients);
  visit("optimizer state", &Breakdown::optimizer_state);
  visit("activations", &Breakdown::activations);
  visit("inputs", &Breakdown::inputs);
  visit("workspace", &Breakdown::workspace);
  visit("context", &Breakdown::context);
  visit("fragmentation", &Breakdown::fragmentation);
}

}  // namespace plimsoll::cli
