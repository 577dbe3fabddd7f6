// The bytes that a choice of kept values takes, without rewriting the trace.
//
// Counts live bytes: what a perfect placement would need. The clock runs over the segment's ops and, before some of
// them, the steps that are run again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/trace.h"

namespace plimsoll {

class ChoiceBytes {
 public:
  /// Both must outlive this. What `trace` says lies elsewhere counts while ops use it.
  ChoiceBytes(const Trace& trace, const TrainingGraph& graph);

  /// The greatest sum of live bytes within the segment, persistent buffers left out.
  int64_t peak(const KeptValues& kept) const;

  /// The op of the segment during which, or before which, that is.
  int32_t peak_op(const KeptValues& kept) const;

  /// Picoseconds of the steps that are run again.
  int64_t cost(const KeptValues& kept) const;

  /// Live bytes while op `op` runs and in the gap before it, less every value of the graph: what no choice changes.
  int64_t fixed_at(int32_t op) const { return fixed_[op - begin_]; }
  int64_t fixed_before(int32_t op) const { return fixed_before_[op - begin_]; }

  /// Scratch of op `op`, bytes.
  int64_t scratch_of(int32_t op) const { return trace_.ops[op].workspace_bytes; }

  /// The segment with a choice carried out: its ops and, between them, the steps that are run again.
  struct Timeline {
    struct Tick {
      int32_t op = 0;     ///< that runs, or before which the step runs again
      int32_t step = -1;  ///< >= 0: this step runs again
      int64_t bytes = 0;  ///< live bytes of the values chosen, and scratch of a step that runs again
    };
    std::vector<Tick> ticks;
    int64_t cost = 0;  ///< picoseconds of the steps run again
  };
  /// Counts the values for which `chosen` is set and, of others, what they live longer for the sake of steps run again.
  Timeline timeline(const KeptValues& kept, const std::vector<char>& chosen) const;

 private:
  std::pair<int64_t, int32_t> peak_and_op(const KeptValues& kept) const;

  const Trace& trace_;
  const TrainingGraph& graph_;
  int32_t begin_;
  std::vector<int64_t> fixed_, fixed_before_;
};

}  // namespace plimsoll
