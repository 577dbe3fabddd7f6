// Declares plans of a job, for this machine or a device of the catalogue, and the search for changes that make it fit.
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
/// Opaque: measured scratch of kernels.
class MeasuredWorkspace;
/// Opaque: the memory and the time left for measurements on this machine, over all plans for a target.
class MeasureAllowance;
struct Step;  // plimsoll/training.h

/// A job's settings after the planner's choices.
struct ResolvedSettings {
  int64_t vocab_size = 0;  ///< rows of the embedding
  Precision precision = Precision::fp32_true;
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;
  int64_t micro_batch_size = 0;       ///< sequences
  int64_t last_micro_batch = 0;       ///< sequences of a step's last micro batch if it is smaller; 0: all are alike
  AccumulationSchedule accumulation;  ///< first epoch of each entry, and micro batches of a step from then on
  int64_t devices = 1;  ///< number of devices; each runs the micro batches above and has a plan like this one.
                        ///< Effective batch: sequences() x devices
  /// Budget of the plan. `device` is empty if the job states none and the device's memory is not known. `host` is
  /// already reduced by prefetched_batch_bytes.
  Budget budget;
  int64_t parameters = 0;        ///< numbers that are trained, over all ranks
  int64_t model_parameters = 0;  ///< numbers of the model: frozen ones included, adapters not
  int64_t rank_parameters = 0;   ///< trained numbers that a rank stores: fewer with zero3
  /// Bytes of host memory for micro batches that are prepared ahead; subtracted from the host budget.
  int64_t prefetched_batch_bytes = 0;
  CostModel cost;                           ///< rates by which times were predicted
  Strategy strategy = Strategy::automatic;  ///< part of the training state that each rank stores; automatic: one rank
  double whole_part = 0;         ///< for zero3: fraction of the parameters' bytes that every rank stores completely
  std::string link;              ///< description of the links between the ranks; empty: one rank
  std::vector<Reason> reasons;   ///< reasons for these settings, also in plan.reasons
  std::string slow_matmul_note;  ///< note that the job sets a precision that is slow on this device; empty: it does not

  /// Returns the sequences of a step of `count` micro batches, on each device.
  int64_t sequences(int64_t count) const {
    return count * micro_batch_size - (last_micro_batch > 0 ? micro_batch_size - last_micro_batch : 0);
  }
};

/// Returns the micro batches of a step of the first epoch as text: "4 x 8", or "4 x 2 + 2" if the last one is smaller.
std::string describe_micro_batches(const ResolvedSettings& settings);

/// A job with its settings and its plan.
struct PlannedJob {
  ResolvedSettings settings;
  Plan plan;
  Trace recorded;                                      ///< recorded step before any pass
  std::shared_ptr<const MeasuredWorkspace> workspace;  ///< scratch of kernels that were run while the job was planned
  double record_seconds = 0;
  double plan_seconds = 0;       ///< time of recording and of the search over every open choice
  double step_seconds = 0;       ///< predicted time of a step of the first epoch
  double tokens_per_second = 0;  ///< predicted
  PlanOptions plan_options;      ///< options of plan_job() for the plan, without on_schedule; for observe_passes()
};

/// A device to plan for, with its budget.
struct PlanTarget {
  std::string device = "cpu";  ///< device whose casts and scratch are planned: cpu | cuda | rocm | mps | xpu
  bool is_local = true;        ///< true: a device of this machine, on which kernels can be run
  CostModel cost;              ///< rates of the device
  Budget budget;
  std::string budget_reason;  ///< reason for the size of the budget
  std::string budget_note;    ///< a line: the job's budget is more than this machine has available; empty: it is not
  bool minimize_step_time =
      true;              ///< false: return the first plan that shows that the job fits; another plan may be faster
  bool bfloat16 = true;  ///< true: the device computes in bfloat16; otherwise float16 is the dtype of mixed precision
  /// Measured speed of 16-bit matmuls as a multiple of float32's; 0: not measured.
  double bfloat16_matmul_speed = 0, float16_matmul_speed = 0;
  /// true: plan_job() looks for stored times of the job's ops that a run has contradicted. It measures these ops again.
  bool may_have_stale_op_times = false;
  /// Memory and time that plan_job() may use for measurements on this machine, over all plans for this target and its
  /// copies. nullptr: no limit, because a run follows or the caller requested the measurements. Every op that fits into
  /// the machine's memory is then measured.
  std::shared_ptr<MeasureAllowance> measuring;
  int64_t rank = 0;  ///< rank whose plan it is, if there are several; ranks differ only in their slices
  /// Connection with the other ranks. The plan counts the bytes that the connection holds. null: the plan counts the
  /// bytes that a connection between CPU ranks of one host would hold.
  std::shared_ptr<Exchange> exchange;
  std::string not_modeled;  ///< description of what a plan for this target leaves out; empty: nothing
  /// Number of ranks; it overrides Job::devices. Empty: Job::devices is used. `budget` is that of one rank, and
  /// `cost` has the link between this number of ranks.
  std::optional<int64_t> devices;
  std::string link;  ///< description of the links between the ranks; empty: one rank
};

/// Returns the target for a device of the catalogue: its usable memory, its context, its rates.
PlanTarget target_of(const DeviceSpec& device);

/// Returns `target` for the ranks of `topology`: sets `devices`, `link`, and the link of `cost`. If `topology` names no
/// link, a device of the catalogue gets the link that the catalogue has for it. If the job states no budget, ranks on
/// the CPU of this machine get equal parts of the machine's memory. The ranks of `target` must not be set yet. Throws
/// UserError as set_peer_link() does.
PlanTarget with_ranks(PlanTarget target, const PeerTopology& topology);

/// Returns the target that the job states. The CPU is that of this machine, with its measured rates (measure_machine).
/// A budget of `auto` is replaced by the memory that this machine has available now. For the CPU this is the available
/// memory less 10 % and less the host budget. For another device of this machine it is the device's free memory less
/// 2 %, plus its context and libraries. If the memory is not known, the budget stays empty. All plans for the target
/// together may measure kernels for at most 3 s. The measurements use at most 256 MiB in addition to the memory of the
/// program. Values that are not measured are estimated, and a reason says so.
PlanTarget target_of(const Job& job);

/// Returns the job's model and inputs as a step of `micro_batch_size` sequences. The size of a vocabulary that is
/// `auto` is read from the file of the tokenizer, if the job has one.
Step step_of(const Job& job, int64_t micro_batch_size);

/// Returns the options of a Training for the job. The budget is the stated one, an open precision becomes 32-true, and
/// accumulation is on if a step may have more than one micro batch. Call resolved_job() first to fix the choices that
/// are open.
TrainingOptions options_of(const Job& job);

/// Returns the micro batch sizes that the planner tries for a batch, ascending; the batch itself is the last. They are
/// its divisors. If consecutive divisors differ by more than a factor of two, sizes between them are added. With an
/// added size the last micro batch of a step is smaller.
std::vector<int64_t> candidate_micro_batches(int64_t batch_size);

/// Records and plans the job, without its data. If the micro batch is `auto`, the plan has the one of
/// candidate_micro_batches() with the least predicted time a step among those that fit the budget. If the precision is
/// `auto`, it has the faster of 32-true and mixed among those that fit. bf16-true changes the result, so it is used
/// only if neither fits. plan.fits says whether the plan fits. plan.minimum_budget_bytes is the smallest over all open
/// choices. Throws UserError as step_of() and record_step() do.
///
/// `on_schedule` is called before each candidate schedule is computed: milliseconds each in small jobs, about a second
/// in large ones. An exception from it ends the planning.
///
/// `on_fit` is called with a number of bytes that suffice, as soon as the job is known to fit its budget. The returned
/// plan may be another, faster one. `on_fit` is called at most once, and never without a budget.
PlannedJob plan_job(const Job& job, const PlanTarget& target, const std::function<void()>& on_schedule = {},
                    const std::function<void(int64_t)>& on_fit = {});
PlannedJob plan_job(const Job& job);  ///< plans for target_of(job)

/// A model change: one smaller setting of the model or its samples, and the plan's figures with it.
struct ModelVariant {
  std::string change;   ///< override: "model.bottleneck_dim=1024"; empty: the unchanged job
  std::string meaning;  ///< "a narrower bottleneck"
  bool fits = false;
  int64_t parameters = 0;
  int64_t peak_bytes = 0, minimum_budget_bytes = 0;
  double step_seconds = 0, tokens_per_second = 0;  ///< predicted
};

/// A report on the progress of model_variants().
struct ModelVariantsProgress {
  int64_t done = 0, total = 0;  ///< plans made, and plans in all; the plan of the unchanged job counts
  std::string change;           ///< override that is being planned
  int64_t schedules = 0;        ///< candidate schedules computed for it so far
};

/// A list of planned model changes.
struct ModelVariants {
  std::vector<ModelVariant> planned;  ///< planned changes, the unchanged job first
  std::vector<std::string> untried;   ///< overrides that were not planned
};

/// Plans the job with one half and one quarter of each setting that its model's type lists; all halves before any
/// quarter. `base_plan` is the plan of the unchanged job, whose figures are the first of the result. `file` and
/// `overrides` are the job's, as for read_job(). `should_continue` is called before each change and each schedule. If
/// it returns false, the changes planned so far are returned.
ModelVariants model_variants(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                             const PlanTarget& target, const PlannedJob& base_plan,
                             const std::function<bool(const ModelVariantsProgress&)>& should_continue = {});

/// Returns step time as a function of memory: the fastest plans under `points` budgets (at least 2), ascending. The
/// budgets are evenly spaced from the minimum budget to the peak of the plan without a budget.
std::vector<FrontierPoint> frontier_of(const Job& job, const PlanTarget& target, int points);

/// Returns the job with its open choices set as in `settings`.
Job resolved_job(Job job, const ResolvedSettings& settings);

/// Times the ops of the job's step on this machine for later plans, and stores the times in the user's cache folder.
/// Runs each distinct op a few times, separately, for at most `seconds` in total. Ops timed since `since` (Unix time,
/// seconds) keep their time. If the job leaves the micro batch open, plans again with the new times until a micro batch
/// is chosen a second time, no op is left to time, or `seconds` are spent. Returns how many ops were timed in all these
/// rounds together.
int measure_machine(const Job& job, double seconds, int64_t since = 0);

/// A group of equal ops of a step: the same operator, and the same types, sizes and strides of operands. Their
/// constants may differ.
struct HotOp {
  std::string name;      ///< "aten::mm.out"
  std::string operands;  ///< "float32[1024, 448], float32[448, 576] by [1, 448] -> float32[1024, 576]"
  std::string modules;   ///< common pattern of their modules: "layers.*.attention"; empty: none
  int64_t runs = 0;      ///< runs in a step
  double seconds = 0;    ///< seconds of all runs
  /// Seconds of all runs by the device's rates alone: of each run, the larger of its seconds of arithmetic and its
  /// seconds of memory traffic.
  double floor_seconds = 0;
  bool timed = false;  ///< true: all were timed. false: some are predicted, as the floor plus the overhead of an op
};

/// A list of a step's ops by their time.
struct HotOps {
  std::vector<HotOp> ops;    ///< groups of ops, largest time first
  double seconds = 0;        ///< seconds of all ops of a step
  double timed_seconds = 0;  ///< part of seconds in ops that were timed
  double floor_seconds = 0;  ///< floor_seconds of all ops
  double wait_seconds = 0;   ///< predicted seconds in which a step waits for copies
};

/// Returns the ops of a planned job's step by their time, recomputed ops and copies included. `segment`: one run of
/// that segment alone; empty: a whole step of the first epoch. Times are those of planned.settings.cost. Throws
/// UserError for a segment that the schedule does not have.
HotOps hot_ops(const PlannedJob& planned, const std::string& segment = {});

/// Times the job's ops on this machine for at most `seconds` (0: none is timed), also those that were timed before, and
/// plans the job with these times.
PlannedJob plan_by_timed_ops(const Job& job, double seconds);

/// A change to a job that does not fit, and the plan's figures with the change.
struct Advice {
  std::vector<std::string> overrides;  ///< overrides of the job's file, as for read_job(): "data.sequence_length=512"
  std::string meaning;                 ///< description of the change: "half the tokens of a sequence"
  /// Peak of the plan; if the search ended before it had a plan: bytes of a budget that is known to suffice.
  int64_t peak_bytes = 0;
  double step_seconds = 0;  ///< predicted upper bound: the search stops at the first plan that fits. 0: the search was
                            ///< stopped before it had a plan; only the fit is known
  double tokens_per_second = 0;
};

/// Returns the overrides as they are typed, quoted for a shell if needed.
std::string override_text(const Advice& advice);

/// A report on the progress of find_fitting_changes().
struct AdviceProgress {
  int64_t planned = 0;    ///< changes planned so far
  int64_t found = 0;      ///< changes among them that fit
  std::string change;     ///< change that is being planned, as it is typed
  int64_t schedules = 0;  ///< candidate schedules computed for it so far
};

/// A set of limits for the search for changes that make a job fit.
struct AdviceOptions {
  size_t max_changes = 4;  ///< number of changes to find
  /// Target without the budget that the job sets: its budget is all memory of the device. The search then tries first
  /// to remove the job's budget. Empty: this is not tried.
  std::optional<PlanTarget> without_job_budget;
  /// Called before each change and each schedule; false ends the search with what it has. Empty: the search runs until
  /// it has found enough changes or tried all.
  std::function<bool(const AdviceProgress&)> should_continue;
};

/// A list of the changes that were found.
struct AdviceSearch {
  std::vector<Advice> found;         ///< found changes, those that reduce the model's quality least first
  int64_t planned = 0;               ///< number of changes that were planned completely
  std::vector<std::string> untried;  ///< changes that were not planned but may fit by their estimate, as they are
                                     ///< typed, the most likely first
  bool ended_early = false;          ///< true: should_continue ended the search
};

/// Returns changes that make the job fit, those that reduce the model's quality least first. Their order: choices left
/// to the planner, precision, weight dtype, optimizer state and gradient accumulators in fewer bits, quantized frozen
/// weights, an adapter's rank, fewer or smaller samples, host memory, another optimizer, a smaller model; then pairs
/// and triples of these. Candidates are estimated from the bytes of `base_plan`, the job's plan, which does not fit.
/// Candidates are then planned, and only those that fit are returned. A candidate is skipped if it has all kinds of
/// changes of a found one, because the found one is simpler. This rule ignores changes of host memory and of the job's
/// budget: they are never skipped, and no candidate is skipped because of them. `file` and `overrides` are the job's,
/// as for read_job(). Throws UserError as plan_job() does for the job itself.
AdviceSearch find_fitting_changes(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                  const PlanTarget& target, const PlannedJob& base_plan,
                                  const AdviceOptions& options = {});

}  // namespace plimsoll
