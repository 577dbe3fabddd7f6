// What a choice of kept values costs, kept up to date while values are kept after all, one by one: only what depends on
// the value is looked at, and not the whole graph.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graph/training_graph.h"

namespace plimsoll {

class RerunCost {
 public:
  /// `graph` must outlive this; `kept` is sound: what is needed and not kept can be rebuilt.
  RerunCost(const TrainingGraph& graph, KeptValues kept);

  /// Picoseconds of the steps that run again, as ChoiceBytes::cost counts them.
  int64_t total() const { return total_; }

  /// Keeps `value`, which was not, and gives the picoseconds that it saves.
  int64_t keep(int32_t value);
  /// Takes the last keep() back.
  void undo();

 private:
  void want(int32_t value);
  void release_makers(int32_t value);
  bool wanted(int32_t value) const { return !kept_[value] && wants_[value] > 0; }

  const TrainingGraph& graph_;
  KeptValues kept_;
  std::vector<int32_t> wants_;  // by value: its own use in backward, and the steps that run again and read it
  std::vector<char> again_;     // by step
  int64_t total_ = 0;
  std::vector<int32_t> work_;  // values
  // Of the last keep(): the value, the steps that do not run any more.
  int32_t last_ = -1;
  std::vector<int32_t> dropped_;
};

}  // namespace plimsoll
