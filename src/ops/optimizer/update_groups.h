// Declares which update ops the planner may join into one group operator (ops/optimizer/update_group.h).
#pragma once

#include <c10/core/DispatchKey.h>

#include "trace/update_group.h"

namespace plimsoll {

/// Returns the grouping rules of AdamW, Lion and SGD with and without momentum, for gradients in their parameter's
/// order.
UpdateGrouping update_grouping();

/// Returns true if these devices have kernels for groups.
bool has_update_groups(c10::DispatchKey device);

}  // namespace plimsoll
