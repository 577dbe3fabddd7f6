// Decides which attentions that are written by hand stay composed: those whose matrices autograd, a hook, another op or
// an output of the step sees.
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "plimsoll/error.h"
#include "record/plan_device.h"
#include "record/recorder.h"
#include "record/written_attention.h"

namespace plimsoll {
namespace {

using at::Tensor;

// Nodes of the steps between q k^T and the probabilities, and of views and copies of these matrices.
constexpr std::array<std::string_view, 19> kSteps = {
    "MulBackward0",          "MulBackward1",           "DivBackward0",        "DivBackward1",   "TanhBackward0",
    "AddBackward0",          "MaskedFillBackward0",    "WhereBackward0",      "CloneBackward0", "ToCopyBackward0",
    "SoftmaxBackward0",      "NativeDropoutBackward0", "UnsafeViewBackward0", "ViewBackward0",  "AliasBackward0",
    "ReshapeAliasBackward0", "CatBackward0",           "SubBackward0",        "SliceBackward0"};
constexpr std::array<std::string_view, 7> kCopies = {"CloneBackward0", "ToCopyBackward0", "UnsafeViewBackward0",
                                                     "ViewBackward0",  "AliasBackward0",  "ReshapeAliasBackward0",
                                                     "SliceBackward0"};
// Returns whether the nodes from probabilities to scores, but for the last, are those of the steps: autograd sees no
// step that writes to the scores through `.data` or under no_grad.
bool are_nodes_of(const std::vector<std::string_view>& steps, const std::vector<NodePointer>& path) {
  auto step = steps.rbegin();
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const std::string name = path[i]->name();
    if (std::ranges::find(kCopies, std::string_view(name)) != kCopies.end()) continue;
    if (step == steps.rend() || !name.starts_with(*step)) return false;
    ++step;
  }
  return step == steps.rend();
}

// Returns the next node on the way from probabilities to scores. The largest score that is subtracted has a gradient of
// 0, and sinks have one of their own.
NodePointer next_to_scores(torch::autograd::Node& node) {
  const std::string name = node.name();
  if (name == "CatBackward0") return node.next_edge(0).function;
  if (name != "SubBackward0" || !node.next_edge(1).function) return only_next(node);
  const NodePointer largest = node.next_edge(1).function, scores = node.next_edge(0).function;
  const bool known = largest->name() == "MaxBackward0" || largest->name() == "AmaxBackward0";
  return known && !is_watched(*largest) && largest->next_edge(0).function == scores ? scores : NodePointer();
}

}  // namespace

std::vector<NodePointer> WrittenAttentions::path_of(const Matrix& matrix, const Tensor& probabilities) {
  std::vector<NodePointer> path = plain_path(probabilities.grad_fn(), matrix.node.get(), kSteps, next_to_scores);
  if (path.empty() || !are_nodes_of(matrix.steps, path)) return {};
  const std::vector<NodePointer> steps = path;
  for (const NodePointer& node : steps)
    if (node->name() == "SubBackward0" && node->next_edge(1).function) path.push_back(node->next_edge(1).function);
  path.insert(path.end(), matrix.product.begin(), matrix.product.end());
  return path;
}

bool WrittenAttentions::replace(const Tensor& probabilities) {
  const auto number = static_cast<int64_t>(replaced_.size());
  const Matrix& matrix = matrices_.at(buffer_of(probabilities));
  const bool kept = kept_.contains(number);
  replaced_.push_back(kept ? Replaced{} : Replaced{matrix.buffers, path_of(matrix, probabilities), matrix.dropped});
  return !kept;
}

void WrittenAttentions::add_path(const std::vector<NodePointer>& path) {
  replaced_.back().path.insert(replaced_.back().path.end(), path.begin(), path.end());
}

void WrittenAttentions::begin_backward(int64_t number) {
  bool watched = false;
  for (const NodePointer& node : replaced_.at(number).path) {
    watched |= is_watched(*node);
    if (is_requested(*node) || watched) watched_.insert(number);
  }
  // The step is recorded again. The hook must not run before: it would take no gradient.
  if (watched) throw InternalError("a hook sees gradients of an attention's matrices, which this recording has not");
}

// Notes hooks that were set behind the replacement.
void WrittenAttentions::note_hooks() {
  for (size_t i = 0; i < replaced_.size(); ++i) {
    if (std::ranges::any_of(replaced_[i].path, [](const NodePointer& node) { return is_watched(*node); }))
      watched_.insert(static_cast<int64_t>(i));
    replaced_[i].path.clear();
  }
}

void WrittenAttentions::begin_segment() {
  note_hooks();
  matrices_.clear();
  largest_.clear();
  repeated_.clear();
  cast_.clear();
}

std::set<int64_t> WrittenAttentions::needed_whole(const Trace& trace) {
  note_hooks();
  std::unordered_map<BufferId, std::vector<int64_t>> attentions_of;
  for (size_t i = 0; i < replaced_.size(); ++i)
    for (const BufferId buffer : replaced_[i].buffers) attentions_of[buffer].push_back(static_cast<int64_t>(i));
  std::set<int64_t> needed = watched_;
  std::unordered_map<BufferId, std::vector<int64_t>> attentions_dropped;  // two of one matrix must have one mask
  for (size_t i = 0; i < replaced_.size(); ++i)
    if (replaced_[i].dropped != kNoBuffer) attentions_dropped[replaced_[i].dropped].push_back(static_cast<int64_t>(i));
  for (const auto& [buffer, attentions] : attentions_dropped)
    if (attentions.size() > 1) needed.insert(attentions.begin(), attentions.end());
  for (const auto& [buffer, attentions] : attentions_of)
    if (trace.buffers[buffer].output) needed.insert(attentions.begin(), attentions.end());
  for (size_t i = 0; i < trace.ops.size() && !attentions_of.empty(); ++i) {
    if (ops_.contains(i)) continue;
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      if (const auto found = attentions_of.find(view.buffer); found != attentions_of.end() && !written)
        needed.insert(found->second.begin(), found->second.end());
    });
  }
  return needed;
}

}  // namespace plimsoll
