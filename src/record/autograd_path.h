// Declares checks of the autograd graph between two tensors of a recording.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <span>
#include <string_view>
#include <vector>

namespace plimsoll {

/// A node of the autograd graph, shared with it: std::shared_ptr in libtorch 2.11, c10::intrusive_ptr in 2.15.
using NodePointer = decltype(torch::autograd::Edge::function);

/// Returns whether a hook sees a gradient that the node takes or returns.
bool is_watched(torch::autograd::Node& node);

/// Returns whether the backward pass that runs now returns a gradient that the node takes (torch.autograd.grad).
bool is_requested(torch::autograd::Node& node);

/// Returns the node to which a node passes its gradients; null if it passes them to several.
NodePointer only_next(torch::autograd::Node& node);

/// Returns the nodes through which the gradient of `from` becomes that of `to`, both among them. Each node but `to` has
/// one of the `names`, and is followed by its next(). Empty if there is no such path, or if a hook sees a gradient on
/// it.
std::vector<NodePointer> plain_path(NodePointer from, const torch::autograd::Node* to,
                                    std::span<const std::string_view> names,
                                    NodePointer (*next)(torch::autograd::Node&) = only_next);

/// Returns `from` and the nodes to which it passes its gradient, up to the `ends`, which are left out.
std::vector<NodePointer> nodes_before(const NodePointer& from, std::span<const NodePointer> ends);

}  // namespace plimsoll
