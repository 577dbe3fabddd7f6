// Optimizer updates of several parameters as one op: what passes/group_updates makes.
//
//     adamw_(p, none, g, none, m, none, v, none, step, …, seed 3)
//     adamw_(q, none, h, none, n, none, w, none, step, …, seed 5)
//     --> adamw_group_([p, q], [], [g, h], [], [m, n], [], [v, w], [], step, …, seeds [3, 5])
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

constexpr std::string_view kGroupSuffix = "group_";

/// "plimsoll::adamw_" -> "plimsoll::adamw_group_"
inline std::string group_name(std::string_view single) {
  return std::string(single) + std::string(kGroupSuffix);
}
inline bool is_update_group(std::string_view name) {
  return name.starts_with("plimsoll::") && name.ends_with("_group_");
}
/// The operator that a member of the group would be: "plimsoll::adamw_group_" -> "plimsoll::adamw_". Other names as
/// they are.
inline std::string_view single_name(std::string_view name) {
  return is_update_group(name) ? name.substr(0, name.size() - kGroupSuffix.size()) : name;
}

/// Which updates the device can run as one, and what they are then. Knows libtorch, which the planner does not.
struct UpdateGrouping {
  /// How many numbers the op updates; nullopt: it is no update, one without a group's operator, or takes scratch.
  std::function<std::optional<int64_t>(const Op&)> elements;
  /// Whether two of them may be in one group: the same operator, constants and scalars.
  std::function<bool(const Op&, const Op&)> alike;
  /// The group's name, arguments and call, of ops that are alike; what else an op has is the caller's.
  std::function<Op(const std::vector<const Op*>&)> group;
};

}  // namespace plimsoll
