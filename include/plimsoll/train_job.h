// Trains a job, as `plimsoll train` does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/job.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/ranks.h"

namespace plimsoll {

/// Figures of one of several ranks at the beginning of a step.
struct RankProgress {
  std::string host;
  int64_t pid = 0;              ///< process ID on its host
  int64_t memory_used = 0;      ///< bytes of its device, arena and workspace; the maximum so far
  int64_t memory_planned = 0;   ///< bytes of its device at the planned peak
  double exchange_seconds = 0;  ///< in exchanges since the first step began, waits for other ranks included
  double train_seconds = 0;     ///< since the first step began
};

/// Where a training run stands after a step.
struct TrainProgress {
  int64_t step = 0;  ///< steps done
  int64_t max_steps = 0;
  int64_t epoch = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;  ///< of this step
  double step_seconds = 0;       ///< of this step, the wait for its data included
  bool skipped = false;          ///< this step, for a gradient that was not finite
  int64_t steps_skipped = 0;     ///< in all
  double loss_scale = 1;
  int64_t memory_used = 0;          ///< bytes, arena and workspace
  int64_t memory_budget = 0;        ///< bytes; 0: none
  std::vector<RankProgress> ranks;  ///< by rank; empty: there is one
};

/// Hears of what happens; every function may do nothing.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void preparing(const std::string& what, double fraction) {}  ///< tokenising: [0, 1]
  virtual void planned(const PlannedJob& job) {}                       ///< before any memory is taken
  /// The job was planned again: the memory that was planned for could not be had when it was to be taken (only where
  /// the budget is `auto`), or kernels take scratch that was not planned. `why` says which.
  virtual void replanned(const std::string& why, const PlannedJob& job) {}
  /// The run continues from `checkpoint`, at `step`.
  virtual void resumed(const std::string& checkpoint, int64_t step) {}
  virtual void stepped(const TrainProgress& progress) {}  ///< after every step
  /// The loss on the evaluation data after `step`.
  virtual void evaluated(int64_t step, double loss) {}
  /// The metrics on the evaluation data after `step`, by name.
  virtual void measured(int64_t step, const std::vector<std::pair<std::string, double>>& metrics) {}
  virtual void left_out(const std::string& what) {}  ///< a sample that cannot be read (`data.skip_bad`)
  /// A checkpoint was written after `step`.
  virtual void saved(const std::string& checkpoint, int64_t step) {}
  virtual void starting() {}  ///< all is prepared: from here on request_stop() ends the run after a step
  /// The metrics cannot be written, for the first time: the run goes on, and tries again with the next.
  virtual void metrics_refused(const std::string& why) {}
};

/// Result of a training run.
struct TrainReport {
  bool fits = true;      ///< false: nothing was trained
  bool stopped = false;  ///< by request_stop(), before the last step
  PlannedJob job;        ///< the plan as it stands after the first step's scratch was learned
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;  ///< arena and workspace, counted
  MemoryUse used;
  Breakdown planned, measured;   ///< measured: the same parts, as far as the arena was used, and scratch as counted
  int64_t resident_bytes = 0;    ///< the process's peak, as the operating system counts it
  int64_t steps = 0;             ///< done in all, those before a resume included
  int64_t steps_skipped = 0;     ///< of these
  int64_t resumed_step = 0;      ///< steps done before this run; 0: it began anew
  int64_t steps_profiled = 0;    ///< that the profile holds; 0 where one was asked for: the run ended before, no file
  double step_seconds = 0;       ///< median over the steps of this run but the first two (scratch is learned there)
  double tokens_per_second = 0;  ///< over the same steps
  std::vector<double> losses;    ///< of every step of this run
  std::optional<double> first_evaluation, last_evaluation;
  std::vector<std::pair<std::string, double>> metrics;  ///< of the last evaluation, where the model has some
  /// What a metric is without learning.
  struct Baseline {
    std::string metric, name;
    double value = 0;
  };
  std::vector<Baseline> baselines;
  /// One of several ranks; bytes.
  struct RankUse {
    std::string host;
    int64_t planned = 0, used = 0;  ///< at the peak, of the device
    int64_t planned_host = 0, used_host = 0;
    int64_t resident = 0;         ///< of the process, as the operating system counts it
    int64_t bytes_sent = 0;       ///< to other ranks
    double exchange_seconds = 0;  ///< in exchanges of the steps, waits for other ranks included
  };
  std::vector<RankUse> ranks;         ///< by rank; empty: there is one
  std::string contradicted_times;     ///< notes on a wrong prediction, one a line; empty: the prediction holds
  std::vector<std::string> left_out;  ///< what cannot be read (`data.skip_bad`), a line each with the file's name
  /// What was asked for beside the training and could not be written, a line each with the reason: metrics, a profile.
  std::vector<std::string> not_written;
};

/// Trains the job; meanwhile checkpoint.directory and log.metrics_file are its own. "Does not fit" is an answer
/// (`fits`). Throws UserError for what the user can mend, a folder that another run holds included; MemoryUnavailable
/// where the machine does not have what an explicit budget was planned to take. Where the budget is `auto` the job is
/// planned again instead, as often as it takes, until it fits what there is or nothing would. Same job, seed and
/// machine: the same losses to the bit, stopped and resumed or not.
TrainReport train_job(const Job& job, TrainObserver& observer);

/// The same, with some of its steps timed op by op into profile.file. Throws UserError before anything is trained where
/// that cannot be written, or where the job has too few steps for any of them to be timed.
TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile);

/// The same as one of several ranks, which call it with the same job: rank 0 writes the files and has the report of the
/// whole; the others' observers hear of their own. An error on one rank is told to the others. `exchange`: as meet()
/// makes it; null where there is one rank.
TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile,
                      std::shared_ptr<Exchange> exchange);

/// Asks the train_job in progress, or the next one, to finish its step, or leave its planning, save a checkpoint if the
/// job has a directory for it and steps were done, and return. From any thread and from a signal handler.
void request_stop() noexcept;

}  // namespace plimsoll
