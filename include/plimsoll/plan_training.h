// Declares plan_training(): it makes every choice that a training leaves open, for this machine or a device of the
// catalogue.
//
//     plimsoll::TrainingOptions options{.budget = {.device = plimsoll::parse_bytes("8GiB")}, .batch_size = 64};
//     auto planned = plimsoll::plan_training([](int64_t size) { return step_of_my_model(size); }, options);
//     plimsoll::Training training(step_of_my_model(*planned.settings.micro_batch_size), planned.settings, planned);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/devices.h"
#include "plimsoll/options.h"
#include "plimsoll/planner.h"

namespace plimsoll {

struct Step;  // plimsoll/training.h

/// Opaque: measured scratch of kernels.
class MeasuredWorkspace;
/// Opaque: the memory and the time left for measurements on this machine, over all plans for a target.
class MeasureAllowance;

/// Returns the step of a micro batch of `micro_batch_size` samples: the first size of every input.
using StepOfSize = std::function<Step(int64_t micro_batch_size)>;

/// The options of a training after the planner's choices: none is `automatic` or empty, except `budget.device` if no
/// budget is stated and the device's memory is not known, `ranks.strategy` with one rank, and `dtype`. `budget.host` is
/// already reduced by prefetched_batch_bytes. TrainingOptions::gradient_checkpointing, update_in_backward and compile
/// stay as they were: Plan has their choices.
struct ResolvedSettings : TrainingOptions {
  int64_t parameters = 0;        ///< numbers that are trained, over all ranks
  int64_t model_parameters = 0;  ///< numbers of the model: frozen ones included, adapters not
  int64_t rank_parameters = 0;   ///< trained numbers that a rank stores: fewer with zero3
  /// Bytes of host memory for micro batches that are prepared ahead; subtracted from the host budget.
  int64_t prefetched_batch_bytes = 0;
  std::string link;              ///< description of the links between the ranks; empty: one rank
  std::vector<Reason> reasons;   ///< reasons for these settings, also in plan.reasons
  std::string slow_matmul_note;  ///< note that a precision is set that is slow on this device; empty: it is not

  /// Returns the samples of a micro batch.
  int64_t micro_batch() const { return micro_batch_size.value(); }
  /// Returns the first epoch of each entry, and micro batches of a step from then on.
  const AccumulationSchedule& accumulation() const { return gradient_accumulation_steps.value(); }
  /// Returns the micro batches of a step of the first epoch.
  int64_t first_accumulation() const { return accumulation().begin()->second; }
  /// Returns the samples of a step of `count` micro batches, on each device.
  int64_t sequences(int64_t count) const {
    return count * micro_batch() - (last_micro_batch > 0 ? micro_batch() - last_micro_batch : 0);
  }
};

/// Returns the micro batches of a step of the first epoch as text: "4 x 8", or "4 x 2 + 2" if the last one is smaller.
std::string describe_micro_batches(const ResolvedSettings& settings);

/// The resident memory that a process with a process budget is planned to have in its training, in bytes.
struct ProcessMemory {
  int64_t budget = 0;   ///< limit; 0: none
  int64_t present = 0;  ///< resident when planning was done: program, libraries, planner, data that are open
  int64_t later = 0;    ///< allocated after that, apart from arenas: batches, data that are not open yet
  int64_t arenas = 0;   ///< arenas in the machine's memory
  int64_t minimum = 0;  ///< smallest limit for which a plan was placed
  bool binds = false;   ///< the limit leaves less than the other budgets allow

  /// Returns the bytes of all three.
  int64_t total() const { return present + later + arenas; }
};

/// A recorded and planned training step, as a Training runs it.
struct PlannedStep {
  Trace recorded;  ///< recorded trace before any pass
  Plan plan;
  /// Scratch of kernels that was measured on the device during planning; null: no kernel was run.
  std::shared_ptr<const MeasuredWorkspace> workspace;
  /// Smallest budget for which a plan was placed, over every choice left to the planner.
  int64_t minimum_budget_bytes = 0;
  ProcessMemory process;
};

/// A training with its settings and its plan.
struct PlannedTraining : PlannedStep {
  ResolvedSettings settings;
  double record_seconds = 0;
  double plan_seconds = 0;        ///< time of recording and of the search over every open choice
  double step_seconds = 0;        ///< predicted time of a step of the first epoch
  double samples_per_second = 0;  ///< predicted, of one device
  PlanOptions plan_options;       ///< options of the plan, without on_schedule; for observe_passes()
};

/// The ranks of a target.
struct TargetRanks {
  /// Number of ranks; it overrides RankOptions::count. Empty: that is used. The target's budget is that of one rank,
  /// and its rates have the link between this number of ranks.
  std::optional<int64_t> count;
  int64_t rank = 0;  ///< rank whose plan it is; ranks differ only in their slices
  /// Connection with the other ranks. The plan counts the bytes that the connection holds. null: the plan counts the
  /// bytes that a connection between CPU ranks of one host would hold.
  std::shared_ptr<Exchange> exchange;
  std::string link;  ///< description of the links between the ranks; empty: one rank
};

/// A device to plan for, with its budget.
struct PlanTarget {
  std::string device = "cpu";  ///< device whose casts and scratch are planned: cpu | cuda | rocm | mps | xpu
  bool is_local = true;        ///< true: a device of this machine, on which kernels can be run
  CostModel cost;              ///< rates of the device
  Budget budget;
  std::string budget_reason;  ///< reason for the size of the budget
  std::vector<Reason> notes;  ///< other reasons: bytes that are not counted, a budget above the memory
  /// Memory and time that plans may use for measurements on this machine, over all plans for this target and its
  /// copies. nullptr: no limit, because a run follows or the caller requested the measurements. Every op that fits into
  /// the machine's memory is then measured.
  std::shared_ptr<MeasureAllowance> measuring;
  TargetRanks ranks;
  /// Bytes that the process will allocate after its planning and that no arena holds; for `budget.process`.
  int64_t later_bytes = 0;
};

/// Decision of the note on a budget of the job that is more than the machine has available (PlanTarget::notes).
inline constexpr const char* kBudgetNote = "memory_budget";

/// Returns the target for a device of the catalogue: its usable memory, its context, its rates.
PlanTarget target_of(const DeviceSpec& device);

/// Returns `target` for the ranks of `topology`: sets the number of `ranks`, their link, and the link of `cost`. If
/// `topology` names no link, a device of the catalogue gets the link that the catalogue has for it. If no budget was
/// stated, ranks on the CPU of this machine get equal parts of the machine's memory. Ranks on GPUs have the rates of
/// the catalogue in place of measured ones, because all ranks must have the same plan. The ranks of `target` must not
/// be set yet. Throws UserError as set_peer_link() does.
PlanTarget with_ranks(PlanTarget target, const PeerTopology& topology);

/// Returns the target that the options state. The CPU is that of this machine, with its measured rates
/// (measure_machine). A budget that is not stated is replaced by the memory that this machine has available now. For
/// the CPU this is the available memory less 10 % and less the host budget. For another device of this machine it is
/// the device's free memory less 2 %, plus its context and libraries. If the memory is not known, the budget stays
/// empty. All plans for the target together may measure kernels for at most 3 s. The measurements use at most 256 MiB
/// in addition to the memory of the program. Values that are not measured are estimated, and a reason says so.
PlanTarget target_of(const TrainingOptions& options);

/// A set of options of a search over open choices.
struct SearchOptions {
  bool minimize_step_time = true;  ///< false: the first plan that shows that the training fits; another may be faster
  /// Called before each candidate schedule is computed: milliseconds each in small steps, about a second in large
  /// ones. An exception from it ends the search.
  std::function<void()> on_schedule = {};
  /// Called with a number of bytes that suffice, as soon as the training is known to fit its budget. The returned plan
  /// may be another, faster one. Called at most once, and never without a budget.
  std::function<void(int64_t)> on_fit = {};
  /// Part of the fastest plan's step time that a plan may be longer to need less memory, from 0 to 1. The plan with the
  /// fewest bytes among these is returned. 0: the fastest. For targets whose budget nobody stated.
  double accepted_slowdown = 0;
};

/// Returns the micro batch sizes that the planner tries for a batch, ascending; the batch itself is the last. They are
/// its divisors. If consecutive divisors differ by more than a factor of two, sizes between them are added. With an
/// added size the last micro batch of a step is smaller.
std::vector<int64_t> candidate_micro_batches(int64_t batch_size);

/// Records and plans a training whose open choices are `automatic` or empty in `options`. An open micro batch becomes
/// the one of candidate_micro_batches() with the least predicted time a step among those that fit the budget. An open
/// precision becomes the faster of 32-true and mixed among those that fit; bf16-true changes the result, so it is used
/// only if neither fits. Open formats become the most exact with which the training fits, an open strategy the fastest
/// of zero2 and zero3. The budget is that of the target; `options` say how much host memory prefetched micro batches
/// take. plan.fits says whether the plan fits; minimum_budget_bytes is the smallest over all open choices. The
/// result's settings and plan make a Training. Throws UserError as `step` and record_step() do.
PlannedTraining plan_training(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                              const SearchOptions& search = {});
/// Plans for target_of(options).
PlannedTraining plan_training(const StepOfSize& step, const TrainingOptions& options);

/// Returns step time as a function of memory: the fastest plans under `points` budgets (at least 2), ascending. An open
/// strategy of several ranks is planned as zero2. The budgets are evenly spaced from the minimum budget to the peak of
/// the plan without a budget.
std::vector<FrontierPoint> frontier_of(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                                       int points);

}  // namespace plimsoll
