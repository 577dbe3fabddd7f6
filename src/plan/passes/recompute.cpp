#include "plan/passes/passes.h"

#include <algorithm>
#include <map>

#include "plan/passes/rewrite.h"

namespace plimsoll {
namespace {

// Applies the choice of one segment while the trace is rewritten.
class Segmentwise {
 public:
  Segmentwise(const RecomputeChoice& choice, const Trace& old, TraceRewriter& rewriter)
      : graph_(*choice.graph), kept_(choice.kept), rewriter_(rewriter) {
    for (RecomputePoint& point : recompute_points(graph_, kept_)) {
      for (int32_t number : point.steps) again_[number] = old.ops[graph_.steps[number].op];
      recomputed_before_[point.before] = std::move(point.steps);
    }
  }

  bool changes(int32_t op) const {
    return op >= graph_.first_backward && op < graph_.segment.end && !recomputed_before_.empty();
  }

  // Inserts the recomputed steps before op `index`.
  void insert_before(int32_t index, const Trace& trace) {
    const auto found = recomputed_before_.find(index);
    if (found == recomputed_before_.end()) return;
    for (int32_t number : found->second) {
      const ForwardOp& step = graph_.steps[number];
      Op op = std::move(again_.at(number));
      for (int32_t value : step.writes) {
        if (fresh_.contains(value)) continue;
        Buffer buffer = trace.buffers[graph_.values[value].buffer];
        buffer.role = Role::temporary;
        fresh_[value] = rewriter_.add_buffer(std::move(buffer));
      }
      replace_buffers(op, [&](BufferId buffer, bool written) {
        const int32_t value = graph_.value_of[buffer];
        if (written) return value >= 0 ? fresh_.at(value) : buffer;
        // Buffers that the step writes, also those that it reads and writes in place, are the new ones, even if the old
        // one is kept.
        const bool own = value >= 0 && std::find(step.writes.begin(), step.writes.end(), value) != step.writes.end();
        return own ? fresh_.at(value) : current(buffer);
      });
      op.recomputed = true;
      rewriter_.insert(std::move(op), index);
    }
  }

  Op renamed(Op op) const {
    replace_buffers(op, [&](BufferId buffer, bool written) { return written ? buffer : current(buffer); });
    return op;
  }

 private:
  BufferId current(BufferId buffer) const {
    const int32_t value = graph_.value_of[buffer];
    if (value < 0 || kept_[value]) return buffer;
    const auto found = fresh_.find(value);
    return found == fresh_.end() ? buffer : found->second;
  }

  const TrainingGraph& graph_;
  const KeptValues& kept_;
  TraceRewriter& rewriter_;
  std::map<int32_t, std::vector<int32_t>> recomputed_before_;
  std::map<int32_t, Op> again_;        // recomputed ops by step: copies, because the trace's own ops are moved from
  std::map<int32_t, BufferId> fresh_;  // new buffer by value
};

}  // namespace

Trace recompute(Trace trace, const std::vector<RecomputeChoice>& choices) {
  TraceRewriter rewriter(trace);
  std::vector<Segmentwise> segments;
  for (const RecomputeChoice& choice : choices) segments.emplace_back(choice, trace, rewriter);
  const auto count = static_cast<int32_t>(trace.ops.size());
  for (int32_t i = 0; i < count; ++i) {
    bool replaced = false;
    for (Segmentwise& segment : segments) {
      if (!segment.changes(i)) continue;
      segment.insert_before(i, trace);
      rewriter.replace(i, segment.renamed(std::move(trace.ops[i])));
      replaced = true;
    }
    if (!replaced) rewriter.keep(i);
  }
  return rewriter.finish();
}

}  // namespace plimsoll
