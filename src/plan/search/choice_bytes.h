// Computes the live bytes and the cost of a choice of kept values without rewriting the trace, for one choice or
// value by value.
//
// Live bytes are what a perfect placement needs. Time runs over the segment's ops and, before some of them, the
// recomputed ops.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/passes/training_graph.h"
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

/// The cost of a choice of kept values, updated while more values are kept, one by one. Each update examines only what
/// depends on the value, not the whole graph.
class RecomputeCost {
 public:
  /// Keeps a reference to `graph`. `kept` must be feasible: every needed value that is not kept can be recomputed.
  RecomputeCost(const TrainingGraph& graph, KeptValues kept);

  /// Returns the picoseconds of the recomputed ops, as ChoiceBytes::cost() counts them.
  int64_t total() const { return total_; }

  /// Keeps `value`, which was not kept, and returns the picoseconds that it saves.
  int64_t keep(int32_t value);
  /// Reverts the last keep().
  void undo();

 private:
  void want(int32_t value);
  void release_makers(int32_t value);
  bool wanted(int32_t value) const { return !kept_[value] && wants_[value] > 0; }

  const TrainingGraph& graph_;
  KeptValues kept_;
  std::vector<int32_t> wants_;  // by value: its readers, which are backward (counted once) and recomputed ops
  std::vector<char> again_;     // by forward op: it is recomputed
  int64_t total_ = 0;
  std::vector<int32_t> work_;  // values
  // For undo(): the value of the last keep(), and the ops that are not recomputed any more.
  int32_t last_ = -1;
  std::vector<int32_t> dropped_;
};

}  // namespace plimsoll
