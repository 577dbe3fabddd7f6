// Declares groups of optimizer updates: several parameters updated by one op, which passes/group_updates makes.
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

/// Returns the name of a group's operator: "plimsoll::adamw_group_" for "plimsoll::adamw_".
inline std::string group_name(std::string_view single) {
  return std::string(single) + std::string(kGroupSuffix);
}
inline bool is_update_group(std::string_view name) {
  return name.starts_with("plimsoll::") && name.ends_with("_group_");
}
/// Returns the operator of a member of the group: "plimsoll::adamw_" for "plimsoll::adamw_group_". Other names are
/// returned unchanged.
inline std::string_view single_name(std::string_view name) {
  return is_update_group(name) ? name.substr(0, name.size() - kGroupSuffix.size()) : name;
}

/// A description of the updates that the device can run as one op. It depends on libtorch; the planner does not.
struct UpdateGrouping {
  /// Returns the number of elements that the op updates. nullopt: it is no update, its operator has no group operator,
  /// or it uses scratch.
  std::function<std::optional<int64_t>(const Op&)> elements;
  /// Returns whether two updates may be in one group: same operator, constants and scalars.
  std::function<bool(const Op&, const Op&)> alike;
  /// Returns the group's name, arguments and call for `ops` that are alike. The caller sets the other fields.
  std::function<Op(const std::vector<const Op*>&)> group;
};

}  // namespace plimsoll
