// Plans of a job for this machine or a device of the catalogue: bytes, times, and changes that would make it fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/devices.h"
#include "plimsoll/job.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Opaque: the connection of a rank with the others (plimsoll/ranks.h).
class Exchange;
/// Opaque: scratch that kernels were found to take.
class LearnedWorkspace;
/// Opaque: the memory and the time that plans of a target may still take for measurements on this machine.
class MeasureAllowance;
struct Step;  // plimsoll/training.h

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
  /// Budget of the plan. `device` is empty if none was stated and the device does not say what it has;
  /// batches_ahead_bytes are taken off `host`.
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

/// The device that a job is planned for, with its budget.
struct PlanTarget {
  std::string device = "cpu";  ///< whose casts and scratch: cpu | cuda | rocm | mps | xpu
  bool here = true;            ///< it is this machine's: kernels can be tried out on it
  CostModel cost;              ///< how fast it is
  Budget budget;
  std::string budget_reason;  ///< why so many
  bool thorough = true;       ///< false: whether the job fits is asked, and for a plan that shows it; the
                              ///< best one may take less time
  bool bfloat16 = true;       ///< it computes in bfloat16; otherwise float16 is the type of mixed precision
  /// Measured speed of matmuls of 16 bits, as a multiple of float32's; 0: not measured.
  double bfloat16_products = 0, float16_products = 0;
  /// Times of ops may be on file that a run has contradicted: those of the job are made again.
  bool times_contradicted = false;
  /// Memory and time that plan_job() may take for measurements on this machine, of all plans for this target and its
  /// copies together. nullptr: a run is about to take the memory, and everything is measured that the machine has the
  /// memory for.
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

/// Returns the options of a Training for the job: the budget as stated, 32-true if the precision is open, and
/// accumulation if a step may have more than one micro batch. pinned() fixes choices that are left open.
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

/// Progress of model_changes().
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

/// Ops of a step that are alike: operator, and operands' types, sizes and strides. Their constants may differ.
struct HotOp {
  std::string name;      ///< "aten::mm.out"
  std::string operands;  ///< "float32[1024, 448], float32[448, 576] by [1, 448] -> float32[1024, 576]"
  std::string modules;   ///< what their modules have in common: "layers.*.attention"; empty: nothing
  int64_t runs = 0;      ///< in a step
  double seconds = 0;    ///< of all runs
  /// Seconds of all runs by the device's rates alone: the larger of arithmetic and traffic.
  double floor_seconds = 0;
  bool timed = false;  ///< all were; else some are predicted: the floor, and the overhead of an op
};

/// The ops of a step by their time.
struct HotOps {
  std::vector<HotOp> ops;    ///< by falling seconds
  double seconds = 0;        ///< of all ops of a step
  double timed_seconds = 0;  ///< of these, of ops that were timed
  double floor_seconds = 0;  ///< of all
  double wait_seconds = 0;   ///< that a step waits for copies beside, as predicted
};

/// Returns the ops of a planned job's step by their time. Recomputed ops and copies count. `segment`: one run of that
/// segment alone; empty: a whole step of the first epoch. Times are those of planned.settings.cost. Throws UserError
/// for a segment that the schedule does not have.
HotOps hot_ops(const PlannedJob& planned, const std::string& segment = {});

/// Times the job's ops on this machine for at most `seconds` (0: none are timed), also those that were timed before,
/// and plans the job by these times.
PlannedJob plan_by_timed_ops(const Job& job, double seconds);

/// A change of a job that does not fit, and what it comes to.
struct Advice {
  std::vector<std::string> overrides;  ///< of its file, as read_job takes them: "data.sequence_length=512"
  std::string meaning;                 ///< what they do, in words: "half the tokens of a sequence"
  int64_t peak_bytes = 0;              ///< of the plan; where there is none yet, what it needs at least
  double step_seconds = 0;  ///< predicted; at most, as the search ends with the first plan that fits. 0: not known yet,
                            ///< as that it fits is known before any plan, and the search ended there
  double tokens_per_second = 0;
};

/// The overrides as they are typed, with quotes for a shell where one would take them apart.
std::string change_of(const Advice& advice);

/// Progress of changes_that_fit().
struct AdviceProgress {
  int64_t planned = 0;    ///< changes
  int64_t found = 0;      ///< of these that fit
  std::string change;     ///< that is planned now, as it is typed
  int64_t schedules = 0;  ///< that were worked out for it so far
};

/// Limits of the search for changes that make a job fit.
struct AdviceOptions {
  size_t most = 4;  ///< changes to find
  /// The target with the device's own budget, where the job's own is less: to leave that out is tried first.
  std::optional<PlanTarget> without_own_budget;
  /// Asked before each change and each schedule; where it says false the search ends with what it has. Empty: it runs
  /// until it has found enough or tried all.
  std::function<bool(const AdviceProgress&)> go_on;
};

/// Result of the search for changes that make a job fit.
struct AdviceSearch {
  std::vector<Advice> found;      ///< what costs least of the model's quality first
  int64_t planned = 0;            ///< changes that were planned, in whole
  std::vector<std::string> left;  ///< worth a try, as they are typed, and not planned any more, the likeliest first
  bool ended_early = false;       ///< by go_on
};

/// Changes that make the job fit, what costs least first: choices left to the planner, then precision, the type of
/// weights, optimizer state and sums of gradients in fewer bits, frozen weights in blocks of few bits, an adapter's
/// rank, fewer or smaller samples, host memory, another optimizer, a smaller model; and twos and threes of them. Which
/// of them could do is estimated from the bytes of `as_it_is`, the job's plan, which does not fit; those are planned,
/// and only what was planned and fits is told. None holds what another one does without. `file` and `overrides` are
/// the job's, as read_job takes them. Throws UserError as plan_job does for the job itself.
AdviceSearch changes_that_fit(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                              const PlanTarget& target, const PlannedJob& as_it_is, const AdviceOptions& options = {});

}  // namespace plimsoll
