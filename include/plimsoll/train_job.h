// What the command line does with a job file, as functions.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/devices.h"
#include "plimsoll/job.h"
#include "plimsoll/links.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"
#include "plimsoll/profile.h"

namespace plimsoll {

class Exchange;  // collectives/exchange.h
class LearnedWorkspace;
class MeasureAllowance;  // base/measure_allowance.h
struct Step;             // plimsoll/step.h

/// Choices that were left to the planner, made.
struct JobSettings {
  int64_t vocab_size = 0;  ///< rows of the embedding
  Precision precision = Precision::fp32_true;
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;
  int64_t micro_batch_size = 0;       ///< sequences
  int64_t last_micro_batch = 0;       ///< sequences of a step's last micro batch if it is smaller; 0: all are alike
  AccumulationSchedule accumulation;  ///< micro batches a step, by the epoch from which on they hold
  int64_t devices = 1;                ///< each with the micro batches above, and a plan like this one; effective batch:
                                      ///< sequences() x devices
  /// That the step is planned for: `device` is empty if none was stated and the device does not say what it has, and
  /// batches_ahead_bytes are off `host`.
  Budget budget;
  int64_t parameters = 0;           ///< how many numbers the model learns
  int64_t batches_ahead_bytes = 0;  ///< of host memory, for micro batches that are prepared ahead; they come off
                                    ///< the host budget
  CostModel cost;                   ///< what times were predicted by
  Strategy strategy = Strategy::automatic;  ///< what each rank stores; automatic: one rank
  double whole_part = 0;                    ///< RankOptions::whole_part
  std::string link;                         ///< the links between the ranks, in words; empty: one rank
  std::vector<Reason> reasons;              ///< why these; plan.reasons has them too
  std::string slow_products;                ///< that the precision is pinned and slow here, in words; empty: it is not

  /// Sequences of a step of `count` micro batches, on each device.
  int64_t sequences(int64_t count) const {
    return count * micro_batch_size - (last_micro_batch > 0 ? micro_batch_size - last_micro_batch : 0);
  }
};

/// The micro batches of a step of the first epoch, in words: "4 x 8", "4 x 2 + 2" where the last one is smaller.
std::string micro_batches_in_words(const JobSettings& settings);

/// A job with its chosen settings and its plan.
struct PlannedJob {
  JobSettings settings;
  Plan plan;
  Trace recorded;                                     ///< the step as it was recorded, before any pass
  std::shared_ptr<const LearnedWorkspace> workspace;  ///< scratch of kernels that were run while the job was planned
  double record_seconds = 0;
  double plan_seconds = 0;       ///< of the search over every open choice, recording included
  double step_seconds = 0;       ///< predicted, of a step of the first epoch
  double tokens_per_second = 0;  ///< predicted
  PlanOptions plan_options;      ///< that plan_job() made the plan under, but for on_schedule; for observe_passes()
};

/// What a job is planned for.
struct PlanTarget {
  std::string device = "cpu";  ///< whose casts and scratch: cpu | cuda | rocm | mps | xpu
  bool here = true;            ///< it is this machine's: kernels can be tried out on it
  CostModel cost;              ///< how fast it is
  Budget budget;
  std::string budget_reason;  ///< why so many
  bool thorough = true;       ///< false: whether the job fits is asked, and for a plan that shows it; the
                              ///< best one may take less time
  bool bfloat16 = true;       ///< it computes in bfloat16; otherwise float16 is the type of mixed precision
  /// How many times as fast as float32's its products of 16 bits were measured to be; 0: not measured.
  double bfloat16_products = 0, float16_products = 0;
  /// Times of ops may be on file that a run has contradicted: those of the job are made again.
  bool times_contradicted = false;
  /// What plan_job() may measure on this machine: memory and time, of all plans for this target and its copies
  /// together. nullptr: a run is about to take the memory, and everything is measured that the machine has the memory
  /// for.
  std::shared_ptr<MeasureAllowance> measuring;
  int64_t rank = 0;                    ///< of several, whose plan it is; ranks differ in their slices only
  std::shared_ptr<Exchange> exchange;  ///< with the other ranks, whose memory is planned; null: as between CPU ranks of
                                       ///< one host
  std::string unknown;                 ///< what a plan for it leaves out, in words; empty: nothing
  /// Ranks of the training, instead of Job::devices; empty: those of the job. `budget` is that of each rank, and `cost`
  /// has the link for this many ranks.
  std::optional<int64_t> devices;
  std::string link;  ///< the links between the ranks, in words; empty: one rank
};

/// The target of a device of the catalogue: its usable memory, its context, its speed.
PlanTarget target_of(const DeviceSpec& device);

/// Returns `target` for the ranks of `topology`: `devices`, `link`, and the link of `cost`. The usual link is that of
/// the catalogue's device if `cost` is of one. Ranks on the CPU of this machine share a budget that the job does not
/// state. `target` is one whose ranks are not set yet. Throws UserError as set_peer_link() does.
PlanTarget with_ranks(PlanTarget target, const PeerTopology& topology);

/// The target that the job itself states. On the CPU this machine, as fast as it was measured to be (measure_machine),
/// and where the budget is `auto` the memory that is available now, less 10 %; of other devices memory is not known.
/// Plans for it measure for at most 3 s and take at most 256 MiB beside the program; the rest is estimated, which a
/// reason says.
PlanTarget target_of(const Job& job);

/// The job's model and inputs as a step of `micro_batch_size` sequences. Where the vocabulary is `auto` it reads the
/// tokenizer's file, if it has one, for its size.
Step step_of(const Job& job, int64_t micro_batch_size);

/// What Training is asked for by the job: the budget as stated, 32-true where the precision is open, and accumulation
/// where a step may have more than one micro batch (pin the choices left open with pinned(), or it is recorded for
/// whatever they may become).
TrainingOptions options_of(const Job& job);

/// The micro batches that the planner weighs for a batch: its divisors and, where these lie more than a factor of two
/// apart, parts of it whose last one is smaller. By rising size; the batch itself is the last.
std::vector<int64_t> micro_batches_to_weigh(int64_t batch_size);

/// Records and plans the job, without its data. Where the micro batch is `auto`, the one of micro_batches_to_weigh with
/// the least predicted time a step among those that fit the budget. Where the precision is `auto`, the faster of
/// 32-true and mixed among those that fit; bf16-true, which changes the result, only where neither does. plan.fits says
/// whether it fits; the minimum budget is over every choice left open. Throws UserError for what step_of and
/// record_step throw.
///
/// `on_schedule` is called before each schedule that is worked out, which takes moments in small jobs and a second or
/// so in large ones. What it throws ends the planning.
///
/// `on_fit` is called at most once, where there is a budget, as soon as a first plan is known that fits it, with its
/// bytes: the answer will be that the job fits, whatever the fastest plan turns out to be.
PlannedJob plan_job(const Job& job, const PlanTarget& target, const std::function<void()>& on_schedule = {},
                    const std::function<void(int64_t)>& on_fit = {});
PlannedJob plan_job(const Job& job);  ///< for target_of(job)

/// A smaller number of the model or its samples, and what the job comes to with it.
struct ModelChange {
  std::string change;   ///< as an override: "model.bottleneck_dim=1024"; empty: the job as it is
  std::string meaning;  ///< "a narrower bottleneck"
  bool fits = false;
  int64_t parameters = 0;
  int64_t peak_bytes = 0, minimum_budget_bytes = 0;
  double step_seconds = 0, tokens_per_second = 0;  ///< predicted
};

/// Where model_changes() stands.
struct ModelChangesProgress {
  int64_t done = 0, of = 0;  ///< changes, the job as it is among them
  std::string change;        ///< that is planned now, as an override
  int64_t schedules = 0;     ///< that were worked out for it so far
};

/// Result of planning the job with changes of its model.
struct ModelChanges {
  std::vector<ModelChange> planned;  ///< the job as it is first
  std::vector<std::string> left;     ///< as overrides: not planned any more
};

/// The job as it is, and with half and a quarter of each number that its model's type lists, each planned again: all
/// halves before any quarter. `file` and `overrides` are the job's, as read_job takes them, `as_it_is` its plan.
/// `go_on` is asked before each change and each schedule; where it says false nothing more is planned, and what was
/// comes back.
ModelChanges model_changes(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                           const PlanTarget& target, const PlannedJob& as_it_is,
                           const std::function<bool(const ModelChangesProgress&)>& go_on = {});

/// Memory against time: the best plans under `points` budgets from the least that fits anything to the most that makes
/// a difference, by rising budget.
std::vector<FrontierPoint> frontier_of(const Job& job, const PlanTarget& target, int points);

/// The job with the choices that were left to the planner as `settings` has them.
Job pinned(Job job, const JobSettings& settings);

/// Times the ops of the job's step on this machine, for plans from now on, and remembers them in the user's cache
/// folder. Runs each distinct op a few times, apart, for `seconds` at most; those that were timed since `since` (Unix
/// time, seconds) keep their time. Gives how many it timed.
int measure_machine(const Job& job, double seconds, int64_t since = 0);

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
/// whole; the others' observers hear of their own. `exchange`: null where there is one rank.
TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile,
                      std::shared_ptr<Exchange> exchange);

/// Asks the train_job in progress, or the next one, to finish its step, or leave its planning, save a checkpoint if the
/// job has a directory for it and steps were done, and return. From any thread and from a signal handler.
void request_stop() noexcept;

}  // namespace plimsoll
