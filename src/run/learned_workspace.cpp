#include "run/learned_workspace.h"

#include <fmt/format.h>

namespace plimsoll {

std::string LearnedWorkspace::key_of(const Op& op) {
  std::string key = op.name;
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", static_cast<int>(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

bool LearnedWorkspace::learn(const Op& op, int64_t bytes) {
  int64_t& known = bytes_[key_of(op)];
  if (bytes <= known) return false;
  known = bytes;
  return true;
}

WorkspaceModel LearnedWorkspace::model() const {
  return [*this](const Op& op) -> std::optional<int64_t> {
    const std::optional<int64_t> ruled = base_ ? base_(op) : std::nullopt;
    if (bytes_.empty()) return ruled;
    const auto found = bytes_.find(key_of(op));
    if (found == bytes_.end()) return ruled;
    return std::max(found->second, ruled.value_or(0));
  };
}

}  // namespace plimsoll
