// Declares plans of a job, and the search for changes that make it fit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/job.h"
#include "plimsoll/plan_training.h"

namespace plimsoll {

/// A job with its settings and its plan.
struct PlannedJob : PlannedTraining {
  int64_t vocab_size = 0;        ///< rows of the embedding; 0: the samples are not tokens
  double tokens_per_second = 0;  ///< predicted, of one device; samples if they are not tokens
};

/// Returns the job's model and inputs as a step of `micro_batch_size` sequences. The size of a vocabulary that is
/// `auto` is read from the file of the tokenizer, if the job has one.
Step step_of(const Job& job, int64_t micro_batch_size);

/// Returns the options of a Training for the job, with what follows from its batch, its data and its model's type.
/// Choices that are open stay open: plan_job() makes them.
TrainingOptions options_of(const Job& job);

/// Records and plans the job, without its data, as plan_training() does. Op times that a run has contradicted are then
/// measured again, and the job is planned by the new times; a precision that the job sets and that is slow on the
/// target gets a note. Throws UserError as step_of() and record_step() do.
PlannedJob plan_job(const Job& job, const PlanTarget& target, const SearchOptions& search = {});
PlannedJob plan_job(const Job& job);  ///< plans for target_of(job)

/// A model change: one smaller setting of the model or its samples, and the plan's figures with it.
struct ModelVariant {
  std::string change;   ///< override: "model.bottleneck_dim=1024"; empty: the unchanged job
  std::string meaning;  ///< "a narrower bottleneck"
  bool fits = false;
  int64_t parameters = 0;
  int64_t peak_bytes = 0, minimum_budget_bytes = 0;
  double step_seconds = 0, tokens_per_second = 0;  ///< predicted
  double uncertainty = 0;                          ///< relative, of both (step_uncertainty()); 0: not known
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

/// Returns frontier_of() for the step and the options of the job.
std::vector<FrontierPoint> frontier_of(const Job& job, const PlanTarget& target, int points);

/// Returns the job with its open choices, device, rates and budget of the device as in `planned`. Its budget of host
/// memory, its disk folder and its choice of checkpointing stay.
Job resolved_job(Job job, const PlannedJob& planned);

/// Times the ops of the job's step on this machine for later plans, and stores the times in the user's cache folder.
/// Runs the step a few times on drawn numbers, in the memory of its plan, if that takes at most half of `seconds`, and
/// each distinct op without a time separately, for at most `seconds` in total. Ops timed since `since` (Unix time,
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
