// Declares the planner: it turns a trace and a byte budget into a plan.
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
#include "plimsoll/plan.h"
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
  /// Elements, at most, of a parameter that is updated in a group, or whose gradient's norm is taken in one. With AdamW
  /// and float32 a larger parameter has at least 7 MiB of traffic and keeps all threads and a GPU's blocks busy by
  /// itself.
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

/// Opaque: the fusions that the device supports (trace/merged_ops.h).
struct FusionRules;
/// Opaque: the operators that may run in chunks of rows (trace/row_slicing.h).
struct RowSlicing;

/// Returns the scratch of an op's kernel on the device planned for, in bytes: by a rule for the operator, or as
/// measured in a run. nullopt: not known; planned as 0 and measured in the first step.
using WorkspaceModel = std::function<std::optional<int64_t>(const Op&)>;

/// Returns other forms of an op that compute the same with fewer launches or less traffic and with other scratch, the
/// fastest first; WorkspaceModel has their scratch. Empty: the op has one form.
using OpForms = std::function<std::vector<Op>(const Op&)>;

/// Returns one op for a matmul whose result is added to a sum in place (sum += a b), or copied to another dtype.
/// `cast`: the op between them that converts the matmul's result to the dtype of the sum; null: none. The caller sets
/// phase, module and flops. nullopt: the device has no such op, or the ops are others.
using ProductSum = std::function<std::optional<Op>(const Op& product, const Op* cast, const Op& sum)>;

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
  /// Operators by which losses of large linear layers are computed in chunks of rows, if the step does not fit, or is
  /// slower, without it. null: no loss is.
  std::shared_ptr<const RowSlicing> row_slicing;
  WorkspaceModel workspace;               ///< empty: no kernel uses scratch
  OpForms forms;                          ///< empty: every op has one form
  ProductSum product_sum;                 ///< empty: matmuls do not add to sums
  CostModel cost = generic_cost_model();  ///< rates by which times are predicted
  SolverParameters solver;                ///< limits of the searches
  std::function<void()> on_schedule;      ///< called before each candidate schedule is computed; may throw
};

/// Returns a plan for `trace`. If nothing fits, `fits` is false and Planner::minimum_budget() is the budget that would
/// fit; that is no exception. The validator has passed every plan that is returned. Deterministic: the same trace and
/// options give the same plan.
Plan make_plan(const Trace& trace, const PlanOptions& options = {});

/// A planner of one trace under several budgets. Results that do not depend on the budget are computed once.
class Planner {
 public:
  /// Prepares the searches.
  Planner(const Trace& trace, const PlanOptions& options);
  ~Planner();
  /// Moves the searches with their results.
  Planner(Planner&&) noexcept;

  /// Returns the plan under the budget of the options.
  Plan plan() const;
  /// Returns the plan under another budget of the device: `bytes`; empty: no limit.
  Plan plan(std::optional<int64_t> bytes) const;

  /// Returns the smallest budget in bytes for which a plan was placed. It is known long before the fastest plan for a
  /// budget.
  int64_t minimum_budget() const;

  /// Returns a cheap, approximate lower bound of the step time in seconds under `budget` bytes. It is for budgets that
  /// need recomputation and a long search. Returns 0 if no bound is known; call plan() then.
  double step_seconds_lower_bound(int64_t budget) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  // Alternatives with updates in backward, with losses in chunks of rows, and with both.
  std::vector<std::unique_ptr<Impl>> others_;
};

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

}  // namespace plimsoll
