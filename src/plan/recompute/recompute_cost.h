// Declares the incremental cost of a choice of kept values while more values are kept, one by one.
//
// Each update examines only what depends on the value, not the whole graph.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graph/training_graph.h"

namespace plimsoll {

/// A cost that is updated when a value is kept.
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
