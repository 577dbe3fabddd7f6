#include "record/fuse_activations.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/operators.h"
#include "ops/layers/group_norm.h"
#include "ops/libtorch_types.h"
#include "ops/rows.h"

namespace plimsoll {
namespace {

using ops::Activation;

// Position of the activation among the arguments of plimsoll::group_normalize, and of its backward.
constexpr size_t kOfNormalize = 5, kOfBackward = 6;

std::string_view base_name(const Op& op) {
  return std::string_view(op.name).substr(0, op.name.find('.'));
}

class FuseActivations {
 public:
  explicit FuseActivations(Trace trace) : trace_(std::move(trace)), uses_(trace_.buffers.size()) {
    for (size_t i = 0; i < trace_.ops.size(); ++i)
      for_each_view(trace_.ops[i], [&](const View& view, bool) {
        std::vector<size_t>& uses = uses_[view.buffer];
        if (uses.empty() || uses.back() != i) uses.push_back(i);
      });
    for (const auto* names : {&trace_.inputs, &trace_.outputs, &trace_.state})
      for (const NamedView& entry : *names) known_.insert(entry.view.buffer);
  }

  Trace run() {
    const size_t count = trace_.ops.size();
    for (size_t i = 0; i < count; ++i)
      if (trace_.ops[i].name == "plimsoll::group_normalize" && trace_.ops[i].results.size() == 1) visit(i);
    return std::move(trace_);
  }

 private:
  // A pointwise call: the views that it reads and writes, which are equal for a call in place.
  struct Call {
    View from, to;
  };

  bool is_free(BufferId buffer) const {
    const Buffer& known = trace_.buffers[buffer];
    return !known.persistent && !known.output && !known_.contains(buffer);
  }
  bool is_whole(const View& view) const {
    return view.offset == 0 && view.elements() * element_bytes(view.dtype) == trace_.buffers[view.buffer].bytes;
  }
  bool are_alike(const View& a, const View& b) const {
    return a.dtype == b.dtype && a.sizes == b.sizes && ops::same_order(a.sizes, a.strides, b.strides) && is_whole(a) &&
           is_whole(b);
  }

  static const View* operand(const Op& op, size_t index) {
    return index < op.arguments.size() && op.arguments[index].views.size() == 1 ? &op.arguments[index].views[0]
                                                                                : nullptr;
  }
  // Returns what the op writes: its only result, or its only argument that is written.
  static const View* written(const Op& op) {
    const View* found = op.results.size() == 1 ? &op.results[0] : nullptr;
    for (const Argument& argument : op.arguments)
      if (argument.written) {
        if (found || argument.views.size() != 1) return nullptr;
        found = &argument.views[0];
      }
    return found;
  }
  std::optional<Call> pointwise_call(const Op& op) const {
    const View *from = operand(op, 0), *to = written(op);
    if (!from || !to || from->buffer == kNoBuffer || !are_alike(*from, *to)) return std::nullopt;
    return Call{*from, *to};
  }

  void visit(size_t norm) {
    const BufferId y = trace_.ops[norm].results[0].buffer;
    if (!is_free(y) || uses_[y].size() < 2 || uses_[y][0] != norm) return;
    if (const BufferId copy = copy_of(y, uses_[y][1]); copy != kNoBuffer) return fuse_silu_in_place(norm, copy);
    const size_t at = uses_[y][1];
    const Op& op = trace_.ops[at];
    const std::string_view name = base_name(op);
    const bool in_place = name == "aten::relu_";
    if (name != "aten::silu" && name != "aten::relu" && !in_place) return;
    const std::optional<Call> call = pointwise_call(op);
    if (!call || call->from.buffer != y || (call->to.buffer == y) != in_place || !is_free(call->to.buffer)) return;
    if (is_changed(trace_.ops[norm], norm, at)) return;
    if (name == "aten::silu")
      fuse_silu(norm, at, call->to.buffer);
    else if (in_place || uses_[y].size() == 2)
      fuse_relu(norm, at, in_place ? moved(y, at) : call->to.buffer);
  }

  // Returns whether an op between two others writes what the first reads.
  bool is_changed(const Op& op, size_t first, size_t second) const {
    bool changed = false;
    for_each_view(op, [&](const View& view, bool writes) {
      if (writes) return;
      for (const size_t i : uses_[view.buffer])
        if (i > first && i < second)
          for_each_view(trace_.ops[i],
                        [&](const View& each, bool also) { changed |= also && each.buffer == view.buffer; });
    });
    return changed;
  }

  // Lets op `at` and all later ones use a new buffer instead of `buffer`; returns the new one.
  BufferId moved(BufferId buffer, size_t at) {
    const auto added = static_cast<BufferId>(trace_.buffers.size());
    trace_.buffers.push_back(Buffer(trace_.buffers[buffer]));
    uses_.emplace_back();
    for (const size_t i : uses_[buffer]) {
      if (i < at) continue;
      uses_[added].push_back(i);
      for (Argument& argument : trace_.ops[i].arguments)
        for (View& view : argument.views)
          if (view.buffer == buffer) view.buffer = added;
    }
    return added;
  }

  void fuse_silu(size_t norm, size_t at, BufferId z) {
    const BufferId y = trace_.ops[norm].results[0].buffer;
    if (uses_[y].size() > 3) return;
    if (uses_[y].size() == 3 && !fuse_backward(norm, uses_[y][2], "aten::silu_backward", y, Activation::silu)) return;
    normalize(norm, at, z, Activation::silu);
  }

  // Returns the buffer of a copy that op `at` makes of the whole buffer for one other op at most; kNoBuffer: it makes
  // none.
  BufferId copy_of(BufferId buffer, size_t at) const {
    const Op& op = trace_.ops[at];
    const View *to = operand(op, 0), *from = operand(op, 1);
    if (op.name != "aten::copy_" || !to || !from || from->buffer != buffer || to->buffer == buffer ||
        !are_alike(*from, *to) || !is_free(to->buffer) || uses_[to->buffer].size() > 2)
      return kNoBuffer;
    return to->buffer;
  }

  // SiLU in place keeps a copy of its operand for backward.
  void fuse_silu_in_place(size_t norm, BufferId copy) {
    const BufferId y = trace_.ops[norm].results[0].buffer;
    if (uses_[y].size() < 3) return;
    const size_t at = uses_[y][2];
    const std::optional<Call> call = pointwise_call(trace_.ops[at]);
    const std::string_view name = base_name(trace_.ops[at]);
    if ((name != "aten::silu" && name != "aten::silu_") || !call || call->from.buffer != y || call->to.buffer != y ||
        is_changed(trace_.ops[norm], norm, at))
      return;
    if (uses_[copy].size() == 2 && !fuse_backward(norm, uses_[copy][1], "aten::silu_backward", copy, Activation::silu))
      return;
    normalize(norm, at, moved(y, at), Activation::silu);
  }

  void fuse_relu(size_t norm, size_t at, BufferId z) {
    for (const size_t i : uses_[z])
      if (base_name(trace_.ops[i]) == "aten::threshold_backward" &&
          fuse_backward(norm, i, "aten::threshold_backward", z, Activation::relu))
        break;
    normalize(norm, at, z, Activation::relu);
  }

  // Makes op `at` the norm with its activation, which writes z.
  void normalize(size_t norm, size_t at, BufferId z, Activation activation) {
    Op op = trace_.ops[norm];
    op.results[0].buffer = z;
    op.phase = trace_.ops[at].phase;
    op.call = with_activation(op, kOfNormalize, activation);
    trace_.ops[at] = counted(std::move(op));
  }

  // Lets the norm's backward read the gradient that op `at`, the activation's backward, reads. Returns false if op `at`
  // is another op, or if something else reads its result. `value`: what it reads next to the gradient.
  bool fuse_backward(size_t norm, size_t at, std::string_view name, BufferId value, Activation activation) {
    const Op& op = trace_.ops[at];
    const View* const read = operand(op, 1);
    const std::optional<Call> call = pointwise_call(op);
    if (base_name(op) != name || !call || !read || read->buffer != value || call->to.buffer == call->from.buffer ||
        !are_alike(*read, call->to))
      return false;
    const BufferId gradient = call->to.buffer;
    if (!is_free(gradient) || uses_[gradient].size() != 2 || uses_[gradient][0] != at) return false;
    const size_t last = uses_[gradient][1];
    Op backward = trace_.ops[last];
    if (backward.name != "plimsoll::group_norm_backward" || is_changed(op, at, last)) return false;
    const View &of_backward = backward.arguments[0].views[0], &mean = trace_.ops[norm].arguments[1].views[0];
    if (of_backward.buffer != gradient || !is_whole(of_backward) ||
        backward.arguments[2].views[0].buffer != mean.buffer)
      return false;
    backward.arguments[0].views[0].buffer = call->from.buffer;
    backward.call = with_activation(backward, kOfBackward, activation);
    trace_.ops[last] = counted(std::move(backward));
    uses_[call->from.buffer].push_back(last);
    std::ranges::sort(uses_[call->from.buffer]);
    return true;
  }

  static std::shared_ptr<const OpCall> with_activation(const Op& op, size_t argument, Activation activation) {
    auto call = std::make_shared<OpCall>(*op.call);
    call->constants.at(argument) = static_cast<int64_t>(activation);
    return call;
  }
  static Op counted(Op op) {
    op.flops = flops_of(op);
    op.bytes_moved = bytes_moved_by(op);
    return op;
  }

  Trace trace_;
  std::vector<std::vector<size_t>> uses_;  // by buffer, the ops in order
  std::set<BufferId> known_;               // by callers
};

}  // namespace

Trace fuse_activations(Trace trace) {
  return FuseActivations(std::move(trace)).run();
}

}  // namespace plimsoll
