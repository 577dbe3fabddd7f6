// Declares the planner: it turns a trace and a byte budget into a schedule with an offset for every buffer.
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

/// A set of limits for the tree search for offsets and for the short searches before it.
struct TreeSearchParameters {
  size_t max_boxes = 3000;  ///< buffers, at most, of a problem that is searched
  /// Ordered pairs of buffers that are live at the same time, at most, of a problem that is searched.
  int64_t max_meetings = int64_t{1} << 22;
  size_t max_infeasible_states = size_t{1} << 20;  ///< states remembered as infeasible; each takes tens of bytes
  int orders = 4;                                  ///< orders of buffers to try, 1 to 4
  /// Single-buffer placements of the short search before the tree search; at most an eighth of the effort.
  int64_t promotion_placements = 20000;
  uint64_t seed = 0;  ///< added to the seed of random orders
};

/// A set of limits for the search over recomputation.
struct RecomputeParameters {
  size_t max_exhaustive_decisions = 12;  ///< values, kept or not, for which all combinations are tried; at most 30
  size_t refinement_work = 4'000'000;    ///< values and ops visited in refining one solution; about 0.1 s
  double accepted_cost_ratio = 1.01;     ///< cost over its lower bound at which larger regions are not tried
  size_t max_values_improved = 400;      ///< values of forward for which the minimum-memory solution is improved
  int improvement_rounds = 4;            ///< rounds that improve the minimum-memory solution, at most
  size_t max_partial_solutions = 1024;   ///< partial solutions kept for each region, at least 2
  size_t max_region_choices = 24;        ///< choices kept for one region, approximately at most
  int max_limit_attempts = 8;            ///< lower limits tried for one partition into regions
};

/// A set of limits for the search over offload.
struct OffloadParameters {
  /// Combinations of kept and offloaded values that are all tried; less than 2^20.
  size_t max_exhaustive_combinations = 128;
  size_t evaluation_work = 60'000;  ///< ops visited for one limit; about a second
  int min_evaluations = 10;         ///< combinations evaluated for one limit, at least
  int max_evaluations = 40;         ///< combinations evaluated for one limit, at most; at least min_evaluations
  int64_t max_value_ratio = 256;    ///< bytes of the largest saved value over those of the smallest offloaded; at
                                    ///< least 1
  int64_t max_buffer_ratio = 1024;  ///< bytes of the largest buffer of state, gradients or parameters over those of the
                                    ///< smallest offloaded one; at least 1
  int max_limit_attempts = 3;       ///< lower limits tried for one combination
  int bound_steps = 6;              ///< bisections of the lower bound
  int steps_per_kind = 8;           ///< steps in which a kind (gradients, parameters) is offloaded; at least 1
};

/// A set of limits for the passes that merge ops into one.
struct MergingParameters {
  int32_t max_distance = 256;  ///< ops between the first and the last of a merged pair or group
  /// Open groups, each compared with every op that follows; at least 1. Updates need few: optimizers have groups with
  /// and without weight decay, and with and without a companion.
  size_t max_open_groups = 8;
  /// Elements, at most, of a parameter that is updated in a group. With AdamW and float32 a larger parameter has at
  /// least 7 MiB of traffic and keeps all threads and a GPU's blocks busy by itself.
  int64_t max_grouped_elements = int64_t{1} << 18;
  /// Elements, at most, of a group of updates. A group then lasts milliseconds: the resolution of a profile, and the
  /// wait of a run that is asked to stop.
  int64_t max_group_elements = int64_t{1} << 21;
};

/// A set of limits for all searches of the planner.
struct SolverParameters {
  int max_placement_attempts = 12;  ///< schedules placed for one answer because placement took more than the live bytes
  size_t large_trace_ops = 1500;    ///< ops of a trace from which on fewer alternatives are placed
  /// Fraction of the time of recomputed ops that remains when some of them are merged into others. 0.98 was measured.
  double unmerged_recompute_fraction = 0.95;
  int64_t placement_effort = 100000;  ///< single-buffer placements (about a microsecond each) of one arena's search
  TreeSearchParameters tree_search;
  RecomputeParameters recompute;
  OffloadParameters offload;
  MergingParameters merging;
};

/// A split of the live bytes at the plan's peak by kind. The parts add up to the plan's peak_bytes.
struct Breakdown {
  int64_t parameters = 0;  ///< parameters and module buffers
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t activations = 0;    ///< saved values and temporaries
  int64_t inputs = 0;         ///< the batch, constants and the step's scalars
  int64_t workspace = 0;      ///< scratch of the kernels that run
  int64_t context = 0;        ///< bytes that the device's runtime allocates for itself
  int64_t fragmentation = 0;  ///< bytes of the arena that no buffer occupies at the peak

  /// Returns the sum of all parts, in bytes.
  int64_t total() const {
    return parameters + gradients + optimizer_state + activations + inputs + workspace + context + fragmentation;
  }
};

/// A count of the bytes in use.
struct MemoryUse {
  int64_t arena = 0;      ///< highest byte of the device's arena that was assigned to an op so far
  int64_t touched = 0;    ///< highest byte of the device's arena that was written to
  int64_t workspace = 0;  ///< largest sum of bytes that kernels allocated outside the arena at one time
  int64_t peak = 0;       ///< largest sum of arena and workspace at one time
  int64_t host = 0;       ///< highest byte of the host's arena that was assigned to a copy or an op so far
  int64_t disk = 0;  ///< highest byte of the disk's arena that was assigned to a copy or an op so far. It is not host
                     ///< memory: pages are written back and dropped
  /// Allocations by kernels outside the arenas since start(), over the whole process, other trainings included.
  int64_t out_of_arena_allocations = 0;
  /// Returns the counted peak, in bytes.
  int64_t measured_peak() const { return peak; }
};

/// Opaque: the fusions that the device supports (trace/pointwise.h).
struct FusionRules;

/// Returns the scratch of an op's kernel on the device planned for, in bytes: by a rule for the operator, or as
/// measured in a run. nullopt: not known; planned as 0 and measured in the first step.
using WorkspaceModel = std::function<std::optional<int64_t>(const Op&)>;

/// A set of budgets and fixed choices for a plan.
struct PlanOptions {
  Budget budget;
  bool minimize_step_time = true;  ///< false: return the first plan that fits, whatever its time
  int64_t micro_batches = 1;       ///< micro batches of a step: the work for one micro batch counts this often
  Choice gradient_checkpointing = Choice::automatic;  ///< `automatic`: only if the step does not fit without
  std::string checkpointed_module;                    ///< `on`: only blocks within this module ("llm"); empty: all
  /// `automatic`: used if the step does not fit, or is slower, without it. `on`: UserError if the trace does not allow
  /// it.
  Choice update_in_backward = Choice::off;
  std::shared_ptr<const FusionRules> fusion_rules;  ///< fusions that the device supports; null: none
  WorkspaceModel workspace;                         ///< empty: no kernel uses scratch
  CostModel cost = generic_cost_model();            ///< rates by which times are predicted
  SolverParameters solver;                          ///< limits of the searches
  std::function<void()> on_schedule;                ///< called before each candidate schedule is computed; may throw
};

/// A prediction of the cost model for each part of a step, in seconds.
struct StepTime {
  double norms = 0;  ///< forward and backward only for the norms of gradients, if updates in backward need these first
  double micro = 0;  ///< forward and backward of the first micro batch, and updates that run in it
  double accumulate = 0;  ///< forward and backward of every further micro batch
  double remainder = 0;   ///< forward and backward of the last micro batch if it is smaller than the others
  double last = 0;        ///< last micro batch with updates in its backward; 0: updates run after it
  double update = 0;      ///< update of the parameters; with updates in backward only the rest of it
  double finish = 0;      ///< rest of the update after `last`, or after a remainder with updates
  double recompute = 0;   ///< part of micro, and of accumulate, that recomputed ops take
  double offload = 0;     ///< part of micro, and of accumulate, in which ops wait for copies to and from host memory
  double update_offload = 0;         ///< part of update in which ops wait for copies
  double recompute_lower_bound = 0;  ///< lower bound of `recompute` + `offload` over all choices that fit the budget;
                                     ///< the choice is optimal if it reaches the bound

  /// Returns the time of recomputed ops as a fraction of the time of all other ops.
  double recompute_share() const {
    const double once = micro - recompute - offload;
    return once > 0 ? recompute / once : 0;
  }

  /// Returns the seconds of a step of `micro_batches` micro batches. `ragged`: the last of at least two is the
  /// remainder.
  double step(int64_t micro_batches, bool ragged = false) const {
    if (micro_batches < 2) return norms + micro + update;
    const double ending = ragged ? remainder : last > 0 ? last : accumulate;
    return micro + accumulate * static_cast<double>(micro_batches - 2) + ending + (last > 0 ? finish : update);
  }
};

/// A decision and its reason, as text.
struct Reason {
  std::string decision;  ///< "gradient_checkpointing: on"
  std::string why;
};

/// A set of choices that the passes apply (src/plan/pipeline.cpp).
struct PlanChoices {
  bool update_in_backward = false;  ///< parameters are updated during backward
  bool recompute = false;           ///< values of forward that are not kept are recomputed in backward
  std::vector<Memory> memory;       ///< memory of each buffer of the recorded trace; empty: all on the device
  /// For each forward value (plan/graph/training_graph): 1 if it is kept, 0 if it is recomputed.
  std::vector<char> kept;
  bool offload = false;          ///< copies are inserted for what is offloaded or not stored on the device
  std::vector<char> offloaded;   ///< for each forward value: 1 if it is offloaded between forward and backward
  bool host_updates = false;     ///< updates of state in host memory run on the host
  int64_t copy_limit_bytes = 0;  ///< live bytes on the device, at most, at which copies may overlap ops
  /// Live bytes on the device, at most, at which exchanges between ranks may overlap ops; < 0: no exchange does.
  int64_t exchange_limit_bytes = -1;
};

/// A schedule and its placement. Offsets are bytes from the arena's start, multiples of trace.alignment.
struct Plan {
  Trace trace;                   ///< schedule: the recorded trace after the passes
  std::vector<int64_t> offsets;  ///< bytes by buffer, in the arena of its memory; -1: the buffer is never used
  std::vector<int64_t> workspace_offsets;  ///< bytes by op; -1: the op has no workspace

  bool fits = true;        ///< peak_bytes, host_bytes and disk_bytes are within the budget
  Budget budget;           ///< budget of the plan
  int64_t peak_bytes = 0;  ///< arena_bytes + budget.context + budget.library
  /// Smallest budget for which a plan was placed, over every choice left to the planner.
  int64_t minimum_budget_bytes = 0;
  int64_t host_bytes = 0;  ///< size of the host arena; 0: nothing is offloaded to host memory
  int64_t disk_bytes = 0;  ///< size of the disk arena; 0: nothing is offloaded to disk
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;        ///< largest sum of live bytes: a lower bound of every placement
  int64_t persistent_bytes = 0;  ///< [0, persistent_bytes) holds the buffers that live from step to step
  int32_t peak_op = 0;           ///< op at which most bytes are live
  Breakdown breakdown;           ///< live bytes at peak_op
  StepTime time;
  bool checkpointed = false;  ///< true: activations are recomputed
  bool update_in_backward = false;
  int64_t fused_ops = 0;  ///< recorded ops that run within others, over all segments
  int64_t offloaded_saved_bytes =
      0;  ///< bytes of saved values that are copied to host memory and back in each micro batch
  int64_t offloaded_state_bytes = 0;     ///< bytes of optimizer state in host memory or on disk
  int64_t offloaded_gradient_bytes = 0;  ///< bytes of gradients in host memory or on disk
  /// Bytes of parameters in host memory or on disk, which are copied in for each use.
  int64_t offloaded_parameter_bytes = 0;
  int64_t host_updates = 0;  ///< number of parameters whose update runs on the host
  std::vector<Reason> reasons;
  PlanChoices choices;  ///< choices that the passes applied
  double plan_seconds = 0;

  /// Returns the waste of the placement as a fraction: (arena_bytes - live_bytes) / live_bytes.
  double arena_waste() const {
    return live_bytes > 0 ? static_cast<double>(arena_bytes - live_bytes) / static_cast<double>(live_bytes) : 0;
  }
};

/// Returns a plan for `trace`. If nothing fits, `fits` is false and minimum_budget_bytes is the budget that would fit;
/// that is no exception. The validator has passed every plan that is returned. Deterministic: the same trace and
/// options give the same plan.
Plan make_plan(const Trace& trace, const PlanOptions& options = {});

/// A planner of one trace under several budgets. Results that do not depend on the budget are computed once.
class Planner {
 public:
  /// Prepares the searches. `options.budget.device` is ignored.
  Planner(const Trace& trace, const PlanOptions& options);
  ~Planner();
  /// Moves the searches with their results.
  Planner(Planner&&) noexcept;

  /// Returns the plan that make_plan() returns under `memory_budget` bytes; empty: no limit.
  Plan plan(std::optional<int64_t> memory_budget) const;

  /// Returns the smallest budget in bytes for which a plan was placed. It is known long before the fastest plan for a
  /// budget.
  int64_t minimum_budget() const;

  /// Returns a cheap, approximate lower bound of the step time in seconds under `budget` bytes. It is for budgets that
  /// need recomputation and a long search. Returns 0 if no bound is known; call plan() then.
  double step_seconds_lower_bound(int64_t budget) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<Impl> impl_in_backward_;  // alternative with updates in backward; null: there is none
};

/// Returns a hash of everything that determines a run of the plan: ops and their operands in order, offsets, choices,
/// budgets. It has 16 hexadecimal digits, the same on every machine. Predicted times, reasons and constant arguments of
/// ops are not in it.
std::string plan_hash(const Plan& plan);

/// A report on one pass of the planner.
struct PassReport {
  std::string_view pass;   ///< name of the pass, "recompute"; "recorded" for the trace before all passes
  bool applied = true;     ///< false: the options or the choices of the plan omit the pass
  bool changed = false;    ///< true: the pass changed the trace
  int64_t ops = 0;         ///< number of ops after the pass
  int64_t buffers = 0;     ///< number of buffers that are persistent or used by an op
  int64_t live_bytes = 0;  ///< largest sum of live bytes on the device
};

/// Receives each pass, in order, with the trace after it.
using PassObserver = std::function<void(const PassReport& report, const Trace& after)>;

/// Repeats the passes that made `plan` from `recorded` under `options`, and reports each to `observer`. The first
/// report is for the recorded trace. Throws InternalError if the result is not the plan.
void observe_passes(const Trace& recorded, const Plan& plan, const PlanOptions& options, const PassObserver& observer);

/// A point of memory against step time: the planner's result for one budget.
struct FrontierPoint {
  int64_t budget_bytes = 0;
  int64_t peak_bytes = 0;
  double step_seconds = 0;  ///< predicted; 0 or not finite: not known
  std::string choices;      ///< choices as text: "micro batch 4 x 8, 12.3 ms of recomputation"
  bool fits = true;
};

/// Returns the largest sum of bytes that parameters, their gradients and optimizer state occupy on the device at one
/// time, as placed.
int64_t peak_model_bytes(const Plan& plan);

/// A buffer that is live at the plan's peak.
struct Resident {
  std::string label;
  Role role;
  int64_t bytes;
};
/// Returns the largest buffers at the plan's peak, largest first; at most `count`.
std::vector<Resident> largest_at_peak(const Plan& plan, size_t count);

/// A share of the peak by part of the model: the first word of the dotted path ("vision", "llm"). "" has everything
/// without a part: inputs, context, memory reserved by libraries, fragmentation, scratch of the update.
struct ModuleBytes {
  std::string module;
  Breakdown bytes;
};

/// Returns the shares of all parts, largest first and "" last. Each kind of bytes adds up to the plan's breakdown.
/// Parameters, gradients and optimizer state belong to the parameter's part. Other values belong to the part whose
/// operator made them, which is the one that read a parameter last (docs/architecture.md).
std::vector<ModuleBytes> bytes_by_module(const Plan& plan);

}  // namespace plimsoll
