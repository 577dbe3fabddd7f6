// Declares the training of a job, as in `plimsoll train`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/device_work.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/ranks.h"
#include "plimsoll/run_length.h"

namespace plimsoll {

/// A rank's figures at the beginning of a step.
struct RankProgress {
  std::string host;
  int64_t pid = 0;              ///< process ID on its host
  int64_t memory_used = 0;      ///< bytes of its device for arena and workspace; the maximum so far
  int64_t memory_planned = 0;   ///< bytes of its device at the planned peak
  double exchange_seconds = 0;  ///< seconds in exchanges since the first step began, waits for other ranks included
  double train_seconds = 0;     ///< seconds since the first step began
};

/// The part of the held-out samples that every evaluation of a run reads.
struct EvaluatedPart {
  int64_t samples = 0;   ///< samples that are read; 0: nothing is evaluated
  int64_t held_out = 0;  ///< all held-out samples
};

/// A training run's figures after a step.
struct TrainProgress {
  int64_t step = 0;       ///< steps done
  int64_t max_steps = 0;  ///< the run's last step (RunLength::steps)
  int64_t epoch = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;  ///< throughput of this step
  double step_seconds = 0;       ///< time of this step, the wait for its data included
  bool skipped = false;          ///< true: this step was skipped because a gradient was not finite
  int64_t steps_skipped = 0;     ///< number of skipped steps so far
  double loss_scale = 1;
  int64_t memory_used = 0;          ///< bytes of arena and workspace
  int64_t memory_budget = 0;        ///< bytes; 0: none
  std::vector<RankProgress> ranks;  ///< figures by rank; empty: there is one rank
};

/// A receiver of a run's events. Every function may be left empty.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Data are being prepared: `fraction` in [0, 1] of `what` is done.
  virtual void preparing(const std::string& what, double fraction) {}
  virtual void planned(const PlannedJob& job) {}  ///< before any memory is allocated
  /// The job was planned again, for the reason `why`. Either the planned memory was not available (only if the budget
  /// is `auto`), or kernels need scratch that was not planned.
  virtual void replanned(const std::string& why, const PlannedJob& job) {}
  /// The data are open, and the number of steps is known; before resumed() and the first step.
  virtual void counted(const RunLength& length, const EvaluatedPart& evaluated) {}
  /// The run continues from `checkpoint`, at `step`.
  virtual void resumed(const std::string& checkpoint, int64_t step) {}
  virtual void stepped(const TrainProgress& progress) {}  ///< after every step
  /// The loss on the evaluation data after `step`.
  virtual void evaluated(int64_t step, double loss) {}
  /// The metrics on the evaluation data after `step`, by name.
  virtual void measured(int64_t step, const std::vector<std::pair<std::string, double>>& metrics) {}
  /// A reader assumed something that a file does not say, or left a part of it out: "a.csv: WHAT". After evaluated(): a
  /// warning about it (TrainReport::never_trained).
  virtual void noted(const std::string& what) {}
  virtual void sample_skipped(const std::string& what) {}  ///< a sample cannot be read (`data.skip_bad`)
  /// A checkpoint was written after `step`.
  virtual void saved(const std::string& checkpoint, int64_t step) {}
  virtual void starting() {}  ///< everything is prepared: from now on request_stop() ends the run after a step
  /// The metrics cannot be written, for the first time. The run continues and tries again with the next line.
  virtual void metrics_write_failed(const std::string& why) {}
};

/// A summary of a training run.
struct TrainReport {
  bool fits = true;      ///< false: nothing was trained
  bool stopped = false;  ///< true: request_stop(), or a checkpoint that cannot be written, ended the run early
  PlannedJob job;        ///< settings and the plan after the first step's scratch was measured
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;  ///< counted bytes of arena and workspace
  MemoryUse used;
  DeviceWork device_work;
  Breakdown planned,
      measured;  ///< measured: the same parts, up to the highest byte of the arena in use, and scratch as counted
  /// Peak of the process in bytes until the end of the training, as counted by the operating system.
  int64_t resident_bytes = 0;
  /// Resident memory of the process in bytes, beside job.process.
  struct ProcessUse {
    int64_t prepared = 0;    ///< peak of planning and of opening the data, before arenas were allocated
    int64_t first_step = 0;  ///< after the first step
  } process;
  RunLength length;  ///< steps of the whole run
  EvaluatedPart evaluated;
  int64_t steps = 0;           ///< steps done in total, those before a resume included
  int64_t steps_skipped = 0;   ///< number of skipped steps among these
  int64_t resumed_step = 0;    ///< steps done before this run; 0: it was not resumed
  int64_t steps_profiled = 0;  ///< steps in the profile; 0 although one was requested: the run ended before the first
                               ///< of them, and there is no file
  double step_seconds = 0;     ///< median over this run's steps without the first two, which measure scratch
  double predicted_step_seconds = 0;  ///< median over the same steps of the predicted seconds, by each step's number
                                      ///< of micro batches; 0: no step
  double data_wait_seconds = 0;       ///< mean over the same steps of the wait for data, a part of the step
  double tokens_per_second = 0;       ///< throughput over the same steps
  std::vector<double> losses;         ///< loss of every step of this run
  std::optional<double> first_evaluation, last_evaluation;
  std::vector<std::pair<std::string, double>> metrics;  ///< metrics of the last evaluation; empty: the model has none
  /// A warning about evaluated samples with classes, structures or captions that no training sample has; empty: there
  /// are none, or there was no evaluation.
  std::string never_trained;
  /// A metric's value without learning, from counts of the training samples.
  struct Baseline {
    std::string metric, name;
    double value = 0;
  };
  /// Baselines on the samples of the last evaluation. Empty: there was no evaluation, the run was stopped, the data
  /// have no baselines, or this is not rank 0.
  std::vector<Baseline> baselines;
  /// A rank's use of memory and links, in bytes.
  struct RankUse {
    std::string host;
    int64_t planned = 0, used = 0;  ///< bytes on the device at the peak
    int64_t planned_host = 0, used_host = 0;
    int64_t resident = 0;         ///< bytes of the process, as counted by the operating system
    int64_t bytes_sent = 0;       ///< bytes sent to other ranks
    double exchange_seconds = 0;  ///< seconds in exchanges of the steps, waits for other ranks included
  };
  std::vector<RankUse> ranks;    ///< figures by rank; empty: there is one rank
  std::string checked_ops;       ///< result of checked ops in one line; empty: ops were not checked
  std::string prediction_notes;  ///< notes on a wrong prediction, one a line; empty: the prediction holds
  /// A note that steps waited for data for more than a tenth of their time, with a remedy; empty: for at most a tenth,
  /// or fewer than three steps.
  std::string data_note;
  /// Samples that cannot be read (`data.skip_bad`), one a line with the file's name.
  std::vector<std::string> left_out;
  /// Assumptions of the readers of data (TrainObserver::noted()), one a line.
  std::vector<std::string> file_notes;
  /// Requested outputs other than checkpoints that could not be written, one a line with the reason: metrics, a
  /// profile, baselines.
  std::vector<std::string> not_written;
};

/// An error of a start: the machine or the device does not have the memory of the budget that the job sets, and the job
/// needs more than there is.
class BudgetUnavailable : public MemoryUnavailable {
 public:
  /// `budget`: a memory_budget that is available, as it is written in a job file.
  BudgetUnavailable(const MemoryUnavailable& error, const std::string& advice, std::string budget)
      : MemoryUnavailable(error.reason(), error.requested_bytes(), advice, error.owner()), budget_(std::move(budget)) {}
  const std::string& budget() const { return budget_; }  ///< budget: a memory_budget that is available

 private:
  std::string budget_;
};

/// Trains the job. The run has exclusive use of checkpoint.directory and log.metrics_file. If the job does not fit,
/// `fits` is false in the report; that is no exception. If the budget is `auto` and memory is missing, the job is
/// planned again until it fits the available memory or no plan does. The same job, seed and machine give the same
/// losses to the bit, stopped and resumed or not. Throws UserError for mistakes that the user can fix, such as a folder
/// that another run uses. Throws MemoryUnavailable if the machine does not have the memory that was planned for an
/// explicit budget: BudgetUnavailable if no plan of the job needs as little as there is.
TrainReport train_job(const Job& job, TrainObserver& observer);

/// Trains the job and times some of its steps op by op into profile.file. Throws UserError before the training if the
/// file cannot be written, or if the job has too few steps for any of them to be timed.
TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile);

/// Trains the job as one of several ranks, which all call it with the same job. Rank 0 writes the files and returns the
/// report for all ranks; the observers of other ranks receive only their own events. An error on one rank is reported
/// to the others. `exchange`: from meet(); null if there is one rank. `check_ops`: runs each op twice, with other bytes
/// around its operands, and throws InternalError with its name if it reads or writes outside of its planned places. The
/// losses are the same to the bit. Steps take 10 to 50 times as long, and host memory holds the arenas a second
/// time, outside the budget. Throws UserError if the device is not the CPU, if the job has a process budget, or if
/// another run with `check_ops` runs.
TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile,
                      std::shared_ptr<Exchange> exchange, bool check_ops = false);

/// Asks the train_job() in progress, or the next one, to stop: it leaves its planning or finishes its step, saves a
/// checkpoint if the job has a directory for it and steps were done, and returns. May be called from any thread and
/// from a signal handler.
void request_stop() noexcept;

}  // namespace plimsoll
