// Computes the live bytes and the cost of a choice of kept values, without rewriting the trace.
//
// Live bytes are what a perfect placement needs. Time runs over the segment's ops and, before some of them, the
// recomputed ops.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A counter of live bytes for choices of one graph.
class ChoiceBytes {
 public:
  /// Keeps references to both. Buffers that `trace` marks with another memory count while ops use them.
  ChoiceBytes(const Trace& trace, const TrainingGraph& graph);

  /// Returns the largest sum of live bytes within the segment, without persistent buffers.
  int64_t peak(const KeptValues& kept) const;

  /// Returns the op of the segment during which, or before which, the peak is.
  int32_t peak_op(const KeptValues& kept) const;

  /// Returns the picoseconds of the recomputed ops.
  int64_t cost(const KeptValues& kept) const;

  /// Returns the live bytes while op `op` runs without all values of the graph: the bytes that no choice changes.
  /// fixed_before(): those in the gap before it.
  int64_t fixed_at(int32_t op) const { return fixed_[op - begin_]; }
  int64_t fixed_before(int32_t op) const { return fixed_before_[op - begin_]; }

  /// Returns the scratch bytes of op `op`.
  int64_t scratch_of(int32_t op) const { return trace_.ops[op].workspace_bytes; }

  /// A segment with a choice applied: its ops and, between them, the recomputed ops.
  struct Timeline {
    struct Tick {
      int32_t op = 0;     ///< op that runs, or before which the forward op `step` is recomputed
      int32_t step = -1;  ///< >= 0: forward op that is recomputed, an index into TrainingGraph::steps
      int64_t bytes = 0;  ///< live bytes of the chosen values, and scratch of a recomputed op
    };
    std::vector<Tick> ticks;
    int64_t cost = 0;  ///< picoseconds of the recomputed ops
  };
  /// Returns the timeline of `kept`. It counts the values with `chosen` set and, of other values, only the time that
  /// they live longer because recomputed ops read them.
  Timeline timeline(const KeptValues& kept, const std::vector<char>& chosen) const;

 private:
  std::pair<int64_t, int32_t> peak_and_op(const KeptValues& kept) const;

  const Trace& trace_;
  const TrainingGraph& graph_;
  int32_t begin_;
  std::vector<int64_t> fixed_, fixed_before_;
};

}  // namespace plimsoll
