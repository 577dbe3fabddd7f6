// What backward needs of forward: the part of a training segment that recomputation chooses over.
//
//     forward   step 0   step 1   step 2            values: what forward steps make and nobody outside reads
//                 a ------> b ------> c
//     backward          uses b    uses c            b and c are needed; a is not, but rebuilding b reads it
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A buffer that forward makes, that lives in this segment only, and that only forward writes.
struct ForwardValue {
  BufferId buffer = kNoBuffer;
  int64_t bytes = 0;             ///< as placed
  std::vector<int32_t> makers;   ///< steps that write it, ascending
  std::vector<int32_t> readers;  ///< steps that read it, ascending
  std::vector<int32_t> uses;     ///< later ops of the segment that read it: indices into Trace::ops, ascending
  bool repeatable = true;        ///< every maker may run again

  bool needed() const { return !uses.empty(); }
};

/// A forward op.
struct ForwardStep {
  int32_t op = 0;
  int64_t cost = 0;             ///< picoseconds: whole numbers add up the same in any order
  std::vector<int32_t> reads;   ///< values that must be there before it runs, ascending, each once
  std::vector<int32_t> writes;  ///< values that it writes, ascending, each once
  /// Run later in the segment, it does the same: it writes values only, and nothing that it reads changes any more.
  bool repeatable = true;
};

struct TrainingGraph {
  Segment segment;
  int32_t first_backward = 0;  ///< ops before it are the steps; the segment's end if there is no backward
  std::vector<ForwardStep> steps;
  std::vector<ForwardValue> values;
  std::vector<int32_t> value_of;  ///< by buffer: its value, or -1
  std::vector<int32_t> by_use;    ///< values that are needed, by the first op that uses them

  /// A value that may be rebuilt instead of kept, and whose fate makes a difference.
  bool droppable(int32_t value) const { return values[value].needed() && values[value].repeatable; }
};

/// The graph of `segment`, whose forward ops come before its backward ops.
TrainingGraph training_graph(const Trace& trace, const Segment& segment, const CostModel& cost);

/// Whether a choice made for one graph means the same in the other: the same steps on the same values, of whatever
/// size and cost (a last micro batch is smaller than the others).
bool same_shape(const TrainingGraph& a, const TrainingGraph& b);

/// By value: whether it stays in memory until its last use. Values that are not kept are rebuilt when they are needed.
using KeptValues = std::vector<char>;

/// Every needed value kept: nothing is recomputed.
KeptValues keep_all(const TrainingGraph& graph);

/// Steps to run again just before op `before`, ascending.
struct Rebuild {
  int32_t before = 0;
  std::vector<int32_t> steps;
};

/// Steps that run again, in the order in which they do, and the op before which each does.
struct Reruns {
  std::vector<int32_t> steps, before;
};

/// rebuilds_of in two lists.
Reruns reruns_of(const TrainingGraph& graph, const KeptValues& kept);

/// Rebuilds every needed value that is not kept, as late as possible, once; and what that takes. A value that is kept
/// lives until the last step run again that reads it. InternalError if `kept` leaves out what cannot be rebuilt.
std::vector<Rebuild> rebuilds_of(const TrainingGraph& graph, const KeptValues& kept);

}  // namespace plimsoll
