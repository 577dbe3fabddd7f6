#include "plan/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cost/operators.h"
#include "plan/passes/rewrite.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

bool gathers_slices(const Op& op) {
  return exchange_op_of(op) == ExchangeOp::gather;
}

bool touches(const Op& op, BufferId buffer) {
  bool found = false;
  for_each_view(op, [&](const View& view, bool) { found |= view.buffer == buffer; });
  return found;
}

void rename(Op& op, BufferId from, BufferId to) {
  replace_buffers(op, [&](BufferId buffer, bool) { return buffer == from ? to : buffer; });
}

// Moves the gathers of one segment. A moved op runs before the op of its new index.
class SegmentGathers {
 public:
  SegmentGathers(Trace& trace, const Segment& segment) : trace_(trace), segment_(segment) {}

  void gather(int32_t index, bool again_in_backward) {
    const Op& gather = trace_.ops[index];
    const BufferId whole = gather.arguments[0].views[0].buffer, slice = gather.arguments[1].views[0].buffer;
    std::vector<int32_t> forward, backward;
    int32_t updated = segment_.end;
    for (int32_t i = segment_.begin; i < segment_.end; ++i) {
      const Op& op = trace_.ops[i];
      if (i == index) continue;
      if (touches(op, whole)) (again_in_backward && op.phase == Phase::backward ? backward : forward).push_back(i);
      if (op.phase == Phase::update && touches(op, slice)) updated = std::min(updated, i);
    }
    dropped_.insert(index);
    place(index, whole, forward, Phase::forward, updated);
    place(index, whole, backward, Phase::backward, updated);
  }

  // Moves the copy of a slice out of a parameter that is being initialized.
  void settle(int32_t index, BufferId whole) {
    int32_t last = segment_.begin - 1;
    for (int32_t i = segment_.begin; i < index; ++i)
      if (touches(trace_.ops[i], whole)) last = i;
    const BufferId twin = add_twin(whole);
    for (int32_t i = segment_.begin; i <= index; ++i) rename(trace_.ops[i], whole, twin);
    before_[last + 1].push_back(trace_.ops[index]);
    dropped_.insert(index);
  }

  void write(std::vector<Op>& ops) {
    for (int32_t i = segment_.begin; i <= segment_.end; ++i) {
      if (const auto found = before_.find(i); found != before_.end())
        for (Op& op : found->second) ops.push_back(std::move(op));
      if (i < segment_.end && !dropped_.contains(i)) ops.push_back(std::move(trace_.ops[i]));
    }
  }

 private:
  BufferId add_twin(BufferId whole) {
    trace_.buffers[whole].persistent = false;
    trace_.buffers.push_back(Buffer(trace_.buffers[whole]));
    return static_cast<BufferId>(trace_.buffers.size() - 1);
  }

  void place(int32_t index, BufferId whole, const std::vector<int32_t>& uses, Phase phase, int32_t updated) {
    if (uses.empty()) return;
    const BufferId twin = add_twin(whole);
    Op gather = trace_.ops[index];
    gather.phase = phase;
    gather.module = trace_.ops[uses.front()].module;
    rename(gather, whole, twin);
    for (const int32_t use : uses) rename(trace_.ops[use], whole, twin);
    // The gather must run before an update of the slice, which would change the gathered values.
    before_[std::min(uses.front(), updated)].push_back(std::move(gather));
  }

  Trace& trace_;
  Segment segment_;
  std::set<int32_t> dropped_;
  std::map<int32_t, std::vector<Op>> before_;
};

}  // namespace

bool gathers_parameters(const Trace& trace) {
  return std::ranges::any_of(trace.ops, gathers_slices);
}

Trace gather_late(Trace trace, bool again_in_backward) {
  std::map<BufferId, BufferId> whole_of;  // by slice
  for (const Op& op : trace.ops)
    if (gathers_slices(op)) whole_of[op.arguments[1].views[0].buffer] = op.arguments[0].views[0].buffer;
  if (whole_of.empty()) return trace;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  for (const Segment& segment : trace.segments) {
    SegmentGathers gathers(trace, segment);
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace.ops[i];
      if (gathers_slices(op)) {
        gathers.gather(i, again_in_backward);
        continue;
      }
      if (op.phase != Phase::initialize || op.name != "aten::copy_") continue;
      const auto found = whole_of.find(op.arguments[0].views[0].buffer);
      if (found != whole_of.end() && touches(op, found->second)) gathers.settle(i, found->second);
    }
    const auto begin = static_cast<int32_t>(ops.size());
    gathers.write(ops);
    segments.push_back({segment.kind, begin, static_cast<int32_t>(ops.size())});
  }
  check(trace.segments.empty() || trace.segments.back().end == static_cast<int32_t>(trace.ops.size()),
        "ops behind the last segment");
  trace.ops = std::move(ops);
  trace.segments = std::move(segments);
  return trace;
}

}  // namespace plimsoll
