#include "plan/passes/passes.h"

#include <algorithm>
#include <set>

#include "cost/operators.h"

namespace plimsoll {
namespace {

// Returns the index of the argument that the op converts when it reads it, as the cast does: the gradient of norms and
// updates, the source of reductions between ranks. -1: none.
int converted_argument(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  return row ? row->converted_argument : -1;
}

struct Use {
  std::vector<int32_t> writers, readers;
};

std::vector<Use> reads_and_writes(const Trace& trace) {
  std::vector<Use> uses(trace.buffers.size());
  for (size_t i = 0; i < trace.ops.size(); ++i)
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      Use& use = uses[view.buffer];
      (written ? use.writers : use.readers).push_back(static_cast<int32_t>(i));
    });
  return uses;
}

bool is_whole(const Trace& trace, const View& view) {
  return view.offset == 0 && view.elements() * element_bytes(view.dtype) == trace.buffers[view.buffer].bytes;
}

bool is_exact(DType from, DType to) {
  return to == DType::float32 && (from == DType::bfloat16 || from == DType::float16);
}

class FoldCasts {
 public:
  explicit FoldCasts(Trace trace) : trace_(std::move(trace)), uses_(reads_and_writes(trace_)) {
    for (const auto* names : {&trace_.inputs, &trace_.outputs, &trace_.state})
      for (const NamedView& entry : *names) known_.insert(entry.view.buffer);
  }

  Trace run() {
    for (size_t i = 0; i < trace_.ops.size(); ++i)
      if (can_fold(static_cast<int32_t>(i))) fold(trace_.ops[i]);
    return std::move(trace_);
  }

 private:
  // Returns whether op `index` is a cast of a whole buffer to another, which no other op writes and only norm, updates
  // and reductions between ranks read. The source does not change after the cast.
  bool can_fold(int32_t index) const {
    const Op& op = trace_.ops[index];
    if (op.name != "aten::copy_" || op.phase != Phase::backward || op.arguments.size() < 2) return false;
    if (op.arguments[0].views.size() != 1 || op.arguments[1].views.size() != 1) return false;
    const View &to = op.arguments[0].views[0], &from = op.arguments[1].views[0];
    if (from.buffer == kNoBuffer || from.buffer == to.buffer || !is_exact(from.dtype, to.dtype)) return false;
    const Buffer &target = trace_.buffers[to.buffer], &source = trace_.buffers[from.buffer];
    if (target.persistent || source.persistent || source.output || target.output || known_.contains(to.buffer) ||
        known_.contains(from.buffer))
      return false;
    if (to.sizes != from.sizes || to.strides != from.strides || !is_whole(trace_, to) || !is_whole(trace_, from))
      return false;
    const Use& use = uses_[to.buffer];
    if (use.writers.size() != 1 || use.readers.empty()) return false;
    if (uses_[from.buffer].writers.empty() || uses_[from.buffer].writers.back() > index) return false;
    return std::ranges::all_of(use.readers, [&](int32_t reader) {
      const Op& reading = trace_.ops[reader];
      const int converted = converted_argument(reading);
      if (reader <= index || converted < 0) return false;
      const std::vector<View>& read = reading.arguments[converted].views;
      if (is_exchange(reading)) return reads_whole(read[0], to) && reading.arguments[0].views[0].dtype == to.dtype;
      return target.role == Role::gradient && read == op.arguments[0].views;
    });
  }

  // Returns whether a reduction of `source` reads all elements of `whole` as a flat tensor, in memory order.
  static bool reads_whole(const View& source, const View& whole) {
    return source.buffer == whole.buffer && source.offset == 0 && source.dtype == whole.dtype &&
           source.sizes == std::vector<int64_t>{whole.elements()} && source.strides == std::vector<int64_t>{1};
  }

  // Lets all readers of the cast's result read its source; the cast is then dead.
  void fold(const Op& cast) {
    const View to = cast.arguments[0].views[0], from = cast.arguments[1].views[0];
    for (const int32_t reader : uses_[to.buffer].readers) {
      Op& op = trace_.ops[reader];
      std::vector<View>& read = op.arguments[converted_argument(op)].views;
      if (is_exchange(op)) {
        read = {{from.buffer, from.dtype, 0, {from.elements()}, {1}}};
        // An all-reduce also transfers the sums, in the wider dtype.
        const int64_t parts = exchange_op_of(op) == ExchangeOp::all_reduce ? 2 : 1, was = element_bytes(to.dtype);
        op.link_bytes = op.link_bytes / (parts * was) * (element_bytes(from.dtype) + (parts - 1) * was);
      } else {
        read = {from};
      }
      op.bytes_moved -= trace_.buffers[to.buffer].bytes - trace_.buffers[from.buffer].bytes;
    }
    trace_.buffers[from.buffer].role = Role::gradient;
    trace_.buffers[from.buffer].label = trace_.buffers[to.buffer].label;
    for (UpdatePiece& piece : trace_.update_pieces)
      if (piece.gradient == to.buffer) piece.gradient = from.buffer;
  }

  Trace trace_;
  std::vector<Use> uses_;
  std::set<BufferId> known_;  // by callers
};

}  // namespace

Trace fold_casts(Trace trace) {
  return FoldCasts(std::move(trace)).run();
}

}  // namespace plimsoll
