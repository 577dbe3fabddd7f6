// Chooses the strategy of a training: which slices of the training state each rank stores.
#pragma once

#include <optional>
#include <vector>

#include "run/search/found.h"

namespace plimsoll {

/// The strategies of a training that are planned, one after the other, and the choice between their plans. An
/// `automatic` strategy of several ranks becomes the faster of zero2 and zero3 that fits, or the one that needs less
/// memory if neither fits. zero3 is planned only if zero2 does not fit, fits only with recomputation or offload, or
/// waits for exchanges that zero3 may hide. If it is used, it is also planned with a part of the parameters whole.
/// `ddp` and `zero1` are used only if the options name them: zero2 stores less and sends as many bytes over the links
/// in a step.
class StrategyChoice {
 public:
  /// `budget` and the plans that are added are those of one rank.
  StrategyChoice(TrainingOptions options, const Budget& budget, bool minimize_step_time)
      : options_(std::move(options)), budget_(budget), minimize_step_time_(minimize_step_time) {}

  /// Returns the options of the strategy to plan next; nullopt: none is left.
  std::optional<TrainingOptions> next() const;
  /// Adds the plan for next().
  void add(Found found) { found_.push_back(std::move(found)); }
  /// Returns the best plan, with the reason for its strategy; next() must have returned nullopt.
  Found result() &&;

 private:
  bool is_open() const { return options_.ranks.count > 1 && options_.ranks.strategy == Strategy::automatic; }
  double whole_part() const;

  const TrainingOptions options_;
  const Budget budget_;
  const bool minimize_step_time_;
  std::vector<Found> found_;  // of the strategy that the options state; or of zero2, zero3, zero3 with a part whole
};

}  // namespace plimsoll
