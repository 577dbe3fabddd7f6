// Which update ops can be one: the group operators (ops/optimizer/update_group.h) as the planner is told of them.
#pragma once

#include <c10/core/DispatchKey.h>

#include "trace/update_group.h"

namespace plimsoll {

/// Of AdamW, Lion and SGD with and without momentum, where the gradient lies in its parameter's order.
UpdateGrouping update_grouping();

/// Whether kernels for groups are there for these devices.
bool has_update_groups(c10::DispatchKey device);

}  // namespace plimsoll
