// Declares the parts of the search over the choices that a training leaves open: formats, micro batch and strategy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/options.h"
#include "plimsoll/plan_training.h"
#include "run/search/step_candidate.h"

namespace plimsoll {

/// Returns `options` with each possible value of the formats that are `automatic`, the most exact first, each with
/// fewer bytes than the previous one. Returns one if nothing is open. The planner uses the first with which the step
/// fits.
std::vector<TrainingOptions> format_choices(const TrainingOptions& options);

/// Returns "state_dtype 8bit, weight_update stochastic": the formats of `chosen` that `options` leave open.
std::string describe_formats(const TrainingOptions& options, const TrainingOptions& chosen);

/// A search for the micro batch of a training whose precision and formats are set.
class MicroBatchSearch {
 public:
  /// `options` state a precision and formats. All arguments but `options` must outlive this.
  MicroBatchSearch(const StepOfSize& step, TrainingOptions options, const PlanTarget& target,
                   const SearchOptions& search);

  /// Chooses the micro batch with the least time among those that fit. Larger ones use a device better, and need more
  /// memory. The search starts at the largest that fits, and goes down to one that fits without recomputation; smaller
  /// ones cannot be faster.
  Found choose(std::optional<int64_t> budget);

  /// Returns the smaller of the minimum budgets of the smallest and of the largest micro batch. Either the smallest has
  /// the smallest need, or the largest, which need not accumulate.
  int64_t minimum_budget();

  /// Drops the recorded steps if the process budget is nearly used up (is_tight()); they are recorded again when they
  /// are needed.
  void make_room();

 private:
  struct Open {
    int64_t micro_batch_size;
    AccumulationSchedule accumulation;
    std::unique_ptr<StepCandidate> candidate;  // recorded when it is first requested
  };

  StepCandidate& candidate(size_t index);
  void release();
  int64_t minimum_budget_of(size_t index);
  std::string micro_batch_reason(const PlannedTraining& planned, size_t evaluated) const;

  const StepOfSize& step_;
  TrainingOptions options_;
  const PlanTarget& target_;
  const SearchOptions& search_;
  std::vector<Open> open_;  // by increasing micro batch
};

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

/// Returns the budget for `available` bytes: all but 10 %, which is for memory outside the arena: the program, the
/// data's batches, the page cache of its text.
int64_t less_margin(int64_t available);

/// Adds a note if the options state a precision whose matmuls were measured on the target as no faster than float32's.
/// The training is then planned in 32-true as well; if that fits and is predicted to be faster, the settings'
/// slow_matmul_note and the reasons say so. If the target has no bfloat16 and the options state it, they say that, and
/// the time of 16-mixed if that is less. Nothing else changes.
void note_slow_matmul(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search);

}  // namespace plimsoll
