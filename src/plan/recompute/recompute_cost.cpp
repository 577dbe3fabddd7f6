#include "plan/recompute/recompute_cost.h"

#include <algorithm>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

// A recomputed op reads nothing that is written later, so the graph of dependencies has no cycles. A value is
// therefore needed exactly if the count of its readers is above 0.
RecomputeCost::RecomputeCost(const TrainingGraph& graph, KeptValues kept)
    : graph_(graph), kept_(std::move(kept)), wants_(graph.values.size(), 0), again_(graph.steps.size(), 0) {
  for (size_t v = 0; v < kept_.size(); ++v)
    if (!kept_[v] && graph.values[v].needed()) want(static_cast<int32_t>(v));
}

void RecomputeCost::want(int32_t value) {
  work_.assign(1, value);
  while (!work_.empty()) {
    const int32_t next = work_.back();
    work_.pop_back();
    if (wants_[next]++ > 0) continue;
    for (const int32_t maker : graph_.values[next].makers) {
      if (std::exchange(again_[maker], 1)) continue;
      total_ += graph_.steps[maker].cost;
      for (const int32_t read : graph_.steps[maker].reads)
        if (!kept_[read]) work_.push_back(read);
    }
  }
}

void RecomputeCost::release_makers(int32_t value) {
  work_.assign(1, value);
  while (!work_.empty()) {
    const int32_t next = work_.back();
    work_.pop_back();
    for (const int32_t maker : graph_.values[next].makers) {
      const ForwardOp& step = graph_.steps[maker];
      if (!again_[maker] || std::ranges::any_of(step.writes, [&](int32_t v) { return wanted(v); })) continue;
      again_[maker] = 0;
      total_ -= step.cost;
      dropped_.push_back(maker);
      for (const int32_t read : step.reads)
        if (!kept_[read] && --wants_[read] == 0) work_.push_back(read);
    }
  }
}

int64_t RecomputeCost::keep(int32_t value) {
  check(!kept_[value], "a value is kept once");
  const int64_t before = total_;
  last_ = value;
  dropped_.clear();
  kept_[value] = 1;
  if (wants_[value] > 0) release_makers(value);
  return before - total_;
}

void RecomputeCost::undo() {
  check(last_ >= 0, "there is a keep to take back");
  // Dropped ops read only values that were not kept. They read the value itself only if it was kept, so none did.
  for (const int32_t maker : dropped_) {
    again_[maker] = 1;
    total_ += graph_.steps[maker].cost;
    for (const int32_t read : graph_.steps[maker].reads)
      if (!kept_[read]) ++wants_[read];
  }
  kept_[last_] = 0;
  last_ = -1;
}

}  // namespace plimsoll
