// From a trace and a byte budget to a schedule with a place for every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/options.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Limits of the tree search for offsets, and of the searches next to it.
struct TreeSearchParameters {
  size_t max_boxes = 3000;                  ///< buffers of a problem that is searched, at most
  int64_t max_meetings = int64_t{1} << 22;  ///< of a problem that is searched: ordered pairs of buffers that are live
                                            ///< at the same time, at most
  size_t max_infeasible_states = size_t{1} << 20;  ///< states remembered as infeasible; each takes tens of bytes
  int orders = 4;                                  ///< orders of buffers that are tried, 1 to 4
  int64_t promotion_placements = 20000;  ///< single-buffer placements of the short search before it; at most an eighth
                                         ///< of the effort
  uint64_t seed = 0;                     ///< added to the seed of random orders
};

/// Limits of the search for what to recompute.
struct RecomputeParameters {
  size_t max_exhaustive_decisions = 12;  ///< values, kept or not, for which all combinations are tried; at most 30
  size_t refinement_work = 4'000'000;    ///< values and ops visited in refining one solution; about 0.1 s
  double accepted_cost_ratio = 1.01;     ///< cost over its lower bound at which larger regions are not tried
  size_t max_values_improved = 400;      ///< values of forward for which the minimum-memory solution is improved
  int improvement_rounds = 4;            ///< rounds that improve the minimum-memory solution, at most
  size_t max_partial_solutions = 1024;   ///< partial solutions kept for each region, at least 2
  size_t max_region_choices = 24;        ///< choices kept for one region, approximately at most
  int max_limit_attempts = 8;            ///< lower limits tried for one cut into regions
};

/// Limits of the search for what to offload.
struct OffloadParameters {
  size_t max_exhaustive_combinations =
      128;                          ///< combinations of kept and offloaded values that are all tried; less than 2^20
  size_t evaluation_work = 60'000;  ///< ops visited for one limit; about a second
  int min_evaluations = 10;         ///< combinations evaluated for one limit, at least
  int max_evaluations = 40;         ///< combinations evaluated for one limit, at most; at least min_evaluations
  int64_t max_value_ratio = 256;    ///< bytes of the largest saved value over those of the smallest offloaded; at
                                    ///< least 1
  int64_t max_buffer_ratio = 1024;  ///< bytes of the largest buffer of state, gradients or parameters over those of the
                                    ///< smallest offloaded one; at least 1
  int max_limit_attempts = 3;       ///< lower limits tried for one combination
  int bound_steps = 6;              ///< bisections of the lower bound
  int steps_per_kind = 8;           ///< parts in which a kind (gradients, parameters) is offloaded; at least 1
};

/// Limits of the passes that merge ops into one.
struct MergingParameters {
  int32_t max_distance = 256;  ///< ops between the first and the last of a merged pair or group
  size_t max_open_groups =
      8;  ///< open groups, each compared with every op that follows; at least 1. Updates need few: optimizers
          ///< have those with and without weight decay, and with and without a companion
  /// Elements of a parameter that is updated in a group. A larger one, 7 MiB of traffic and more with AdamW and
  /// float32, keeps all threads and a GPU's blocks busy by itself.
  int64_t max_grouped_elements = int64_t{1} << 18;
  /// Elements of a group of updates. A profile shows, and a run that is asked to stop waits for, milliseconds.
  int64_t max_group_elements = int64_t{1} << 21;
};

/// Limits of all searches of the planner.
struct SolverParameters {
  int max_placement_attempts = 12;  ///< schedules placed for one answer because placement took more than the live bytes
  size_t large_trace_ops = 1500;    ///< ops of a trace from which on fewer alternatives are placed
  /// Part of the time of recomputed ops that is left when some of them are merged into others. 0.98 was measured.
  double unmerged_recompute_fraction = 0.95;
  int64_t placement_effort = 100000;  ///< single-buffer placements (about a microsecond each) of one arena's search
  TreeSearchParameters tree_search;
  RecomputeParameters recompute;
  OffloadParameters offload;
  MergingParameters merging;
};

/// What lives at the peak of the plan, in bytes. The parts add up to the plan's peak_bytes.
struct Breakdown {
  int64_t parameters = 0;  ///< parameters and module buffers
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t activations = 0;    ///< what forward leaves for backward, and temporaries
  int64_t inputs = 0;         ///< the batch, constants and the step's scalars
  int64_t workspace = 0;      ///< scratch that kernels take while they run
  int64_t context = 0;        ///< what the device's runtime takes for itself
  int64_t fragmentation = 0;  ///< bytes of the arena that nothing lies in at the peak

  /// Returns the sum of all parts, in bytes.
  int64_t total() const {
    return parameters + gradients + optimizer_state + activations + inputs + workspace + context + fragmentation;
  }
};

/// Bytes in use, counted.
struct MemoryUse {
  int64_t arena = 0;      ///< the highest byte of the arena that an op so far was given
  int64_t touched = 0;    ///< the highest byte of the arena that has been written to
  int64_t workspace = 0;  ///< the most that kernels took beside the arena at a time
  int64_t peak = 0;       ///< the most of both at a time
  int64_t host = 0;       ///< the highest byte of the host's arena that a copy or an op so far was given
  int64_t disk = 0;       ///< the same of the disk's; not host memory: pages are written back and dropped
  /// How often kernels took memory beside the arenas since start(); of this process, other trainings included.
  int64_t outside_allocations = 0;
  /// Returns the counted peak, in bytes.
  int64_t measured_peak() const { return peak; }
};

/// What the device can fuse (trace/pointwise.h).
struct Fusing;

/// Scratch that a kernel takes on the device planned for, in bytes: a rule for the operator, or what was learned from
/// a run. nullopt: not known; planned as 0 and learned on the first step.
using WorkspaceModel = std::function<std::optional<int64_t>(const Op&)>;

/// Budgets and fixed choices of a plan.
struct PlanOptions {
  Budget budget;
  bool thorough = true;       ///< false: the first plan that fits is the answer, whatever its time
  int64_t micro_batches = 1;  ///< of a step: how often what is done for each counts
  Choice gradient_checkpointing = Choice::automatic;  ///< `automatic`: only if the step does not fit without
  std::string checkpointed_module;                    ///< `on`: only blocks within this module ("llm"); empty: all
  /// `automatic`: where the step does not fit, or is slower, without. `on`: UserError where that cannot be.
  Choice update_in_backward = Choice::off;
  std::shared_ptr<const Fusing> fusing;   ///< which ops may be fused, and when; null: none
  WorkspaceModel workspace;               ///< empty: no kernel takes any
  CostModel cost = generic_cost_model();  ///< what recomputation is weighed by
  SolverParameters solver;                ///< limits of the searches
  std::function<void()> on_schedule;      ///< called before each schedule that is worked out; may throw
};

/// Predicted by the cost model, in seconds.
struct StepTime {
  double norms = 0;            ///< forward and backward for the norms of gradients alone, where that is wanted first
  double micro = 0;            ///< forward and backward of the step's first micro batch, and updates that run in it
  double accumulate = 0;       ///< of every further one
  double remainder = 0;        ///< of a last one that is smaller than the others
  double last = 0;             ///< of a last one in which parameters are updated; 0: they are updated after it
  double update = 0;           ///< of the parameters, or where backward has updated them of what is left
  double finish = 0;           ///< of what is left after `last`, or after a remainder with updates
  double recompute = 0;        ///< of micro and of accumulate each: ops that run again
  double offload = 0;          ///< of micro and of accumulate each: copies to host memory and back, as far as ops wait
  double update_offload = 0;   ///< of update, likewise
  double recompute_bound = 0;  ///< no choice of what to recompute and what to move fits the budget and takes less;
                               ///< what was chosen is best where this is equal to `recompute` + `offload`

  /// What is recomputed, as a part of the ops that run anyway.
  double recompute_share() const {
    const double once = micro - recompute - offload;
    return once > 0 ? recompute / once : 0;
  }

  /// Of a step of so many micro batches; `ragged`: the last of them, one of at least two, is the remainder.
  double step(int64_t micro_batches, bool ragged = false) const {
    if (micro_batches < 2) return norms + micro + update;
    const double ending = ragged ? remainder : last > 0 ? last : accumulate;
    return micro + accumulate * static_cast<double>(micro_batches - 2) + ending + (last > 0 ? finish : update);
  }
};

/// A decision and its reason, in words.
struct Reason {
  std::string decision;  ///< "gradient_checkpointing: on"
  std::string why;
};

/// Choices of the planner that its passes carry out (src/plan/pipeline.cpp).
struct PlanChoices {
  bool update_in_backward = false;  ///< parameters are updated during backward
  bool recompute = false;           ///< values of forward that are not kept are recomputed in backward
  std::vector<Memory> memory;       ///< memory of each buffer of the recorded trace; empty: all on the device
  std::vector<char>
      kept;              ///< for each forward value (plan/graph/training_graph): 1 if it is kept, 0 if it is recomputed
  bool offload = false;  ///< copies are inserted for what is offloaded or not stored on the device
  std::vector<char> offloaded;   ///< by value of forward: offloaded between forward and backward
  bool host_updates = false;     ///< updates of state in host memory run on the host
  int64_t copy_limit_bytes = 0;  ///< live bytes on the device, at most, at which copies may overlap ops
  /// Live bytes on the device, at most, at which exchanges between ranks may overlap ops; < 0: none does.
  int64_t exchange_limit_bytes = -1;
};

/// A schedule and its placement. Offsets are bytes from the arena's start, multiples of trace.alignment.
struct Plan {
  Trace trace;                             ///< the schedule: the recorded trace as the passes left it
  std::vector<int64_t> offsets;            ///< by buffer, in the arena of its memory; -1: never used, has no place
  std::vector<int64_t> workspace_offsets;  ///< by op; -1: the op has no workspace

  bool fits = true;                  ///< peak_bytes, host_bytes and disk_bytes are within the budget
  Budget budget;                     ///< that it was planned for
  int64_t peak_bytes = 0;            ///< arena_bytes + budget.context + budget.library
  int64_t minimum_budget_bytes = 0;  ///< the least budget that fits, over every choice left to the planner
  int64_t host_bytes = 0;            ///< of host memory, an arena of its own; 0: nothing is moved there
  int64_t disk_bytes = 0;            ///< of a disk, an arena of its own; 0: nothing is moved there
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;        ///< the greatest sum of live bytes: no placement is smaller
  int64_t persistent_bytes = 0;  ///< [0, persistent_bytes) holds what lives from step to step
  int32_t peak_op = 0;           ///< the op at which most bytes are live
  Breakdown breakdown;           ///< at peak_op
  StepTime time;
  bool checkpointed = false;  ///< activations are recomputed
  bool update_in_backward = false;
  int64_t fused_ops = 0;              ///< recorded ops that run within others, over all segments
  int64_t moved_bytes = 0;            ///< of saved values, to host memory and back, a micro batch
  int64_t moved_state_bytes = 0;      ///< of optimizer state that lies in host memory or on disk
  int64_t moved_gradient_bytes = 0;   ///< of gradients, likewise
  int64_t moved_parameter_bytes = 0;  ///< of parameters, likewise: fetched for each use
  int64_t host_updates = 0;           ///< parameters whose update runs on the host
  std::vector<Reason> reasons;
  PlanChoices choices;  ///< what the passes carried out
  double plan_seconds = 0;

  /// (arena_bytes - live_bytes) / live_bytes
  double arena_waste() const {
    return live_bytes > 0 ? static_cast<double>(arena_bytes - live_bytes) / static_cast<double>(live_bytes) : 0;
  }
};

/// Plans `trace`. "Does not fit" is an answer (`fits` is false, minimum_budget_bytes says what would), not an
/// exception. The validator has passed every plan that comes out of here. Deterministic: the same trace and options
/// give the same plan.
Plan make_plan(const Trace& trace, const PlanOptions& options = {});

/// Plans one trace under several budgets; what does not depend on the budget is worked out once.
class Planner {
 public:
  /// `options.budget.device` is not read.
  Planner(const Trace& trace, const PlanOptions& options);
  ~Planner();
  /// Moves the searches that are already done.
  Planner(Planner&&) noexcept;

  /// What make_plan gives under that budget, bytes; empty: no limit.
  Plan plan(std::optional<int64_t> memory_budget) const;

  /// The least budget that fits, bytes: of plans that were placed, and had long before the fastest one for a budget.
  int64_t minimum_budget() const;

  /// Where a plan under `budget` bytes has to recompute and that takes a while to search: seconds that hardly any plan
  /// stays below, had in moments. 0 where that is not known: plan() says.
  double least_seconds(int64_t budget) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<Impl> in_backward_;  // the alternative, where there is one: updates in backward
};

/// Returns a hash of what a run does by the plan: ops and their operands in order, offsets, choices, budgets; 16
/// hexadecimal digits, the same on every machine. Predicted times, reasons and constant arguments of ops are not in it.
std::string plan_hash(const Plan& plan);

/// A pass of the planner, and the trace after it.
struct PassReport {
  std::string_view pass;   ///< its name, "recompute"; "recorded" for the trace before all passes
  bool applied = true;     ///< false: the options or the choices of the plan leave it out
  bool changed = false;    ///< the pass changed the trace
  int64_t ops = 0;         ///< number of ops after the pass
  int64_t buffers = 0;     ///< number of buffers that are persistent or used by an op
  int64_t live_bytes = 0;  ///< the largest sum of live bytes on the device
};

/// Receives each pass, in order, with the trace after it.
using PassObserver = std::function<void(const PassReport& report, const Trace& after)>;

/// Runs the passes again that made `plan` of `recorded` under `options`, and reports each to `observer`. The first
/// report is of the recorded trace. Throws InternalError if the result is not the plan.
void observe_passes(const Trace& recorded, const Plan& plan, const PlanOptions& options, const PassObserver& observer);

/// One point of memory against step time: what the planner answers to one budget.
struct FrontierPoint {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;
  double step_seconds = 0;  ///< predicted; 0 or not finite: not known
  std::string choices;      ///< in words: "micro batch 4 x 8, 12.3 ms of recomputation"
  bool fits = true;
};

/// The most bytes that parameters, their gradients and optimizer state take on the device at a time, as placed.
int64_t most_model_bytes(const Plan& plan);

/// What fills the memory at the plan's peak, by name and bytes, largest first; at most `count` entries.
struct Resident {
  std::string label;
  Role role;
  int64_t bytes;
};
/// Returns the largest buffers at the plan's peak, largest first; at most `count`.
std::vector<Resident> largest_at_peak(const Plan& plan, size_t count);

/// A part of the model by the first word of its dotted path ("vision", "llm"), and what it has of the peak; "": what no
/// part has for itself: inputs, context, what libraries set aside, fragmentation, scratch of the update.
struct ModuleBytes {
  std::string module;
  Breakdown bytes;
};

/// By falling bytes, "" last; each kind of bytes adds up to the plan's breakdown. Parameters, gradients and optimizer
/// state belong where the parameter does, other values to the part whose operator made them, which is the one that read
/// a parameter last (docs/architecture.md).
std::vector<ModuleBytes> bytes_by_module(const Plan& plan);

}  // namespace plimsoll
