#include "record/autograd_path.h"

#include <algorithm>

namespace plimsoll {

using torch::autograd::Edge;
using torch::autograd::Node;

bool is_watched(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

NodePointer only_next(Node& node) {
  NodePointer next;
  for (const Edge& edge : node.next_edges()) {
    if (!edge.function) continue;
    if (next) return {};
    next = edge.function;
  }
  return next;
}

std::vector<NodePointer> plain_path(NodePointer from, const Node* to, std::span<const std::string_view> names,
                                    NodePointer (*next)(Node&)) {
  constexpr size_t kMaxNodes = 64;
  std::vector<NodePointer> path;
  while (from && path.size() < kMaxNodes && !is_watched(*from)) {
    path.push_back(from);
    if (from.get() == to) return path;
    if (std::ranges::find(names, std::string_view(from->name())) == names.end()) break;
    from = next(*from);
  }
  return {};
}

}  // namespace plimsoll
