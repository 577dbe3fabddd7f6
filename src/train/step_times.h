// Declares the step times of a run, notes on their difference from the plan's prediction, and whether other programs
// use the run's processors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/measurement.h"
#include "plimsoll/train_job.h"

namespace plimsoll {

/// The times of the steps of a run. The first two steps are too slow to be representative: the first plans again, the
/// second is the first with the new offsets. They count only if there are no others.
class StepTimes {
 public:
  /// `predicted_seconds`: the plan's prediction for the step's number of micro batches. `data_seconds`: the part of
  /// `seconds` in which the step waited for its data.
  void add(double seconds, int64_t tokens, double predicted_seconds, double data_seconds) {
    steps_.push_back({seconds, tokens, predicted_seconds, data_seconds});
  }

  /// Returns true if other steps than the first two are known.
  bool representative() const;
  double median_seconds() const;            ///< 0: no step
  double median_predicted_seconds() const;  ///< median prediction of the same steps
  double median_compute_seconds() const;    ///< median of the same steps without their wait for data
  double mean_data_seconds() const;         ///< mean wait for data of the same steps
  /// Returns the part of the steps' time in which they waited for data. Workers deliver batches in bursts, so the
  /// median wait can be 0 in a run that waits for data.
  double data_share() const;
  double tokens_per_second() const;  ///< 0: no step

 private:
  struct Step {
    double seconds;
    int64_t tokens;
    double predicted_seconds, data_seconds;
  };
  std::span<const Step> timed() const;  // the steps that count
  template <typename Value>
  double median_of(const Value& value) const;
  template <typename Value>
  double sum_of(const Value& value) const;

  std::vector<Step> steps_;
};

/// Returns notes on a wrong prediction after a run on the CPU, with their probable cause; empty: the prediction holds.
/// Marks the op times that the run contradicts. Waits for data do not count: no prediction has them.
std::string prediction_notes(const Job& job, const PlannedJob& planned, const StepTimes& times);

/// Returns a note that the steps waited for data, with a remedy; empty: for at most a tenth of their time, or fewer
/// than three steps.
std::string data_note(const Job& job, const StepTimes& times);

/// A watch for other programs that use the processors or the memory of a run on the CPU. It looks at the steps in
/// windows of at least three steps and a second, after the first two steps, which measure scratch and plan again. Reads
/// the clocks of measuring_machine().
class SharedMachineWatch {
 public:
  /// `threads`: CPU threads of the steps.
  explicit SharedMachineWatch(int threads) : threads_(threads) {}

  /// Call it after each step with its seconds, waits for data not counted, the predicted ones, and
  /// memory_stall_seconds(). Returns a line the first time that the steps of a window take at least 1.5 times as long
  /// as predicted while memory was short for a tenth of the window, or other programs keep at least half a processor of
  /// this run busy; otherwise "".
  std::string after_step(double seconds, double predicted_seconds, std::optional<double> memory_stalls = {});

 private:
  int threads_;
  int steps_ = 0;
  bool stated_ = false;
  double begin_ = 0;
  std::optional<OtherWork> before_;
  std::optional<double> stalls_before_;
  std::vector<double> seconds_;
};

}  // namespace plimsoll
