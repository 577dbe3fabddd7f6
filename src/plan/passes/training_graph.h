// Declares the graph of a training segment that recomputation chooses over: forward ops, and the values that they make.
//
// A saved value is a forward result that the backward pass reads.
//
//     forward   step 0   step 1   step 2            values: results of forward steps that are read only in the segment
//                 a ------> b ------> c
//     backward          uses b    uses c            b and c are saved values; a is not, but recomputing b reads it
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A buffer that forward ops make, that lives in this segment only, and that only forward ops write.
struct ForwardValue {
  BufferId buffer = kNoBuffer;
  int64_t bytes = 0;             ///< bytes as placed
  std::vector<int32_t> makers;   ///< steps that write it, ascending
  std::vector<int32_t> readers;  ///< steps that read it, ascending
  std::vector<int32_t> uses;     ///< later ops of the segment that read it: indices into Trace::ops, ascending
  bool repeatable = true;        ///< every step that writes it may run again

  bool needed() const { return !uses.empty(); }
};

/// A forward op of the graph.
struct ForwardOp {
  int32_t op = 0;
  int64_t cost = 0;             ///< seconds of the op in picoseconds: sums of integers do not depend on the order
  std::vector<int32_t> reads;   ///< values that it reads, ascending, each once
  std::vector<int32_t> writes;  ///< values that it writes, ascending, each once
  /// Running it later in the segment gives the same result: it writes values only, and its inputs do not change
  /// afterwards.
  bool repeatable = true;
};

/// A graph of the forward steps and values of a training segment.
struct TrainingGraph {
  Segment segment;
  int32_t first_backward = 0;  ///< first op that is no step; the segment's end if there is no backward
  std::vector<ForwardOp> steps;
  std::vector<ForwardValue> values;
  std::vector<int32_t> value_of;  ///< by buffer: its value, or -1
  std::vector<int32_t> by_use;    ///< needed values, by the first op that uses them

  /// Returns whether `value` may be recomputed instead of kept, and the choice makes a difference.
  bool droppable(int32_t value) const { return values[value].needed() && values[value].repeatable; }
};

/// Returns the graph of `segment`, whose forward ops come before its backward ops.
TrainingGraph training_graph(const Trace& trace, const Segment& segment, const CostModel& cost);

/// Returns whether a choice for one graph is valid for the other: both have the same steps on the same values. Sizes
/// and costs may differ, because a last micro batch may be smaller.
bool same_shape(const TrainingGraph& a, const TrainingGraph& b);

/// A choice by value: 1 if it stays in memory until its last use, 0 if it is recomputed when it is needed.
using KeptValues = std::vector<char>;

/// Returns the choice that keeps every needed value: nothing is recomputed.
KeptValues keep_all(const TrainingGraph& graph);

/// A set of steps to recompute just before op `before`, ascending.
struct RecomputePoint {
  int32_t before = 0;
  std::vector<int32_t> steps;
};

/// A sequence of all recomputed steps in order, each with the op that it precedes.
struct RecomputeSequence {
  std::vector<int32_t> steps, before;

  /// Adds the steps that make `needed` again before `op`. Calls for one op follow one another, and finish() the last.
  /// Values made are set in `available` and listed in `made`; steps are set in `again`, and not repeated.
  void add(const TrainingGraph& graph, int32_t op, int32_t needed, std::vector<char>& available,
           std::vector<char>& again, std::vector<int32_t>& made);
  /// Sorts the steps before the last op.
  void finish();

 private:
  std::ptrdiff_t begin_ = 0;  // first step before the current op
  std::vector<int32_t> work_;
};

/// Returns recompute_points() as two lists.
RecomputeSequence recompute_sequence(const TrainingGraph& graph, const KeptValues& kept);

/// Returns the steps that recompute every needed value that is not kept: once each, as late as possible. A kept value
/// lives until the last recomputed step that reads it. Throws InternalError if a value that is not repeatable is not
/// kept.
std::vector<RecomputePoint> recompute_points(const TrainingGraph& graph, const KeptValues& kept);

}  // namespace plimsoll
