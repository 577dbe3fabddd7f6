#include "record/autograd_path.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

namespace plimsoll {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {
constexpr size_t kMaxNodes = 64;
}  // namespace

bool is_watched(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

bool is_requested(Node& node) {
  // Not empty: the gradients of some tensors are requested, and nothing else is computed.
  const auto* const tasks = torch::autograd::get_current_graph_task_exec_info();
  if (!tasks) return false;
  const auto task = tasks->find(&node);
  return task != tasks->end() && task->second.captures_;
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
  std::vector<NodePointer> path;
  while (from && path.size() < kMaxNodes && !is_watched(*from)) {
    path.push_back(from);
    if (from.get() == to) return path;
    if (std::ranges::find(names, std::string_view(from->name())) == names.end()) break;
    from = next(*from);
  }
  return {};
}

std::vector<NodePointer> nodes_before(const NodePointer& from, std::span<const NodePointer> ends) {
  std::vector<NodePointer> nodes;
  const auto insert = [&](const NodePointer& node) {
    const bool ends_here = !node || std::ranges::find(ends, node) != ends.end();
    if (!ends_here && nodes.size() < kMaxNodes && std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  };
  insert(from);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodePointer node = nodes[i];
    for (const Edge& edge : node->next_edges()) insert(edge.function);
  }
  return nodes;
}

}  // namespace plimsoll
