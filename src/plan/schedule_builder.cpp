#include "plan/schedule_builder.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan/passes/passes.h"
#include "plan/passes/pipeline.h"
#include "plan/reasons.h"
#include "plan/search/recompute_search.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// Largest number of kinds of recomputed values for which a plan lists a reason.
constexpr size_t kKindsExplained = 6;

// Bytes by which the peak may grow for scratch that makes the step faster: a loss head of 8192 tokens and 150 000 words
// takes this much.
constexpr int64_t kMaxScratchGrowth = 3 * GiB;

// Returns the number of parameters that ops on the host update. A parameter that several segments update counts once.
// If a parameter is on the device, the op writes its host copy; `copied_to` maps the host copy to the parameter.
int64_t parameters_updated_on_host(const Trace& trace) {
  std::vector<BufferId> copied_to(trace.buffers.size(), kNoBuffer);
  for (const Op& op : trace.ops)
    if (op.copy == CopyStage::start) copied_to[op.arguments[1].views[0].buffer] = op.arguments[0].views[0].buffer;
  std::set<BufferId> parameters;
  for (const Op& op : trace.ops)
    if (op.on_host)
      for_each_view(op, [&](const View& view, bool written) {
        const Buffer& buffer = trace.buffers[view.buffer];
        if (written && buffer.role == Role::parameter)
          parameters.insert(buffer.persistent ? view.buffer : copied_to[view.buffer]);
      });
  return static_cast<int64_t>(parameters.size());
}

StepTime time_of(const Trace& trace, const CostModel& cost) {
  StepTime time;
  time.norms = segment_seconds(cost, trace, SegmentKind::norms);
  time.micro = segment_seconds(cost, trace, SegmentKind::micro);
  time.accumulate = segment_seconds(cost, trace, SegmentKind::accumulate);
  time.remainder = segment_seconds(cost, trace, SegmentKind::remainder);
  time.last = segment_seconds(cost, trace, SegmentKind::last);
  time.update = segment_seconds(cost, trace, SegmentKind::update);
  time.finish = segment_seconds(cost, trace, SegmentKind::finish);
  return time;
}

// Returns `time` with the parts of a step's time that only the search computes.
StepTime with_parts_of(StepTime time, const StepTime& search_time) {
  time.recompute = search_time.recompute;
  time.offload = search_time.offload;
  time.update_offload = search_time.update_offload;
  time.recompute_lower_bound = search_time.recompute_lower_bound;
  return time;
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(const Trace& recorded, const PlanOptions& options, PlanChoices base)
    : options_(options), base_choices_(std::move(base)), trace_(prepare_trace(recorded, base_choices_, options_)) {
  if (!trace_.segment(SegmentKind::micro)) return;
  search_.emplace(trace_, options_.cost, options_.solver.recompute);
  const Trace keep_all_trace =
      run_passes({.trace = trace_}, Stage::merging, Stage::merging, inputs(base_choices_)).trace;
  const StepTime keep_all_time = time_of(keep_all_trace, options_.cost);
  keep_all_micro_seconds_ = keep_all_time.micro;
  keep_all_update_seconds_ = keep_all_time.update;
  keep_all_step_seconds_ = step_seconds(keep_all_time);
  if (options_.cost.exchanges_overlap)
    max_overlap_seconds_saved_ =
        exchanges_of_step(options_.cost, keep_all_trace, options_.micro_batches, is_ragged()).seconds;
  int64_t persistent = 0;
  for (const Buffer& buffer : keep_all_trace.buffers)
    if (buffer.persistent && buffer.on_device()) persistent += placed_bytes(keep_all_trace, buffer.bytes);
  int64_t transient = 0;  // stays 0 if no op is left, because no op has a result
  for (const int64_t bytes : transient_bytes_by_op(keep_all_trace, lifetimes_of(keep_all_trace)))
    transient = std::max(transient, bytes);
  keep_all_peak_lower_bound_ = persistent + transient + options_.budget.context + options_.budget.library;
}

bool ScheduleBuilder::is_small(size_t factor) const {
  return trace_.ops.size() <= factor * options_.solver.large_trace_ops;
}

double ScheduleBuilder::max_update_seconds_saved() const {
  const bool on_host = options_.budget.host > 0 && options_.cost.host_link > 0 && options_.cost.host_bytes > 0;
  return on_host ? keep_all_update_seconds_ : 0;
}

PassInputs ScheduleBuilder::inputs(const PlanChoices& choices) const {
  return {options_, choices, options_.cost, search_ ? &search_->graphs() : nullptr};
}

Plan ScheduleBuilder::build_without_choices() const {
  Plan plan = run_passes({.trace = trace_}, Stage::placement, Stage::placement, inputs(base_choices_));
  plan.time = time_of(plan.trace, options_.cost);
  return plan;
}

Plan ScheduleBuilder::build(const RecomputeSolution& solution) const {
  PlanChoices choices = base_choices_;
  choices.recompute = true;
  choices.kept = solution.kept;
  Plan plan = run_passes({.trace = trace_}, Stage::choices, Stage::placement, inputs(choices));
  plan.time = time_of(plan.trace, options_.cost);
  plan.checkpointed = solution.cost > 0;
  plan.time.recompute = static_cast<double>(solution.cost) * 1e-12;
  plan.time.recompute_lower_bound = static_cast<double>(solution.lower_bound) * 1e-12;
  plan.reasons = explain_recomputation(trace_, search_->graphs().front(), solution.kept, kKindsExplained);
  return plan;
}

Plan ScheduleBuilder::build(const OffloadVariant& variant, const OffloadSolution& solution, bool host_updates,
                            int64_t limit) const {
  PlanChoices choices = base_choices_;
  choices.memory = variant.assignment.memory;
  choices.recompute = true;
  choices.kept = solution.kept;
  choices.offload = true;
  choices.offloaded = solution.offloaded;
  choices.host_updates = host_updates;
  choices.copy_limit_bytes = limit;
  Plan plan = run_passes({.trace = variant.trace}, Stage::choices, Stage::placement, inputs(choices));
  plan.time = time_of(plan.trace, options_.cost);
  int64_t recompute_cost = 0;  // picoseconds
  for (const RecomputePoint& point : recompute_points(search_->graphs().front(), solution.kept))
    for (int32_t step : point.steps) recompute_cost += search_->graphs().front().steps[step].cost;
  plan.checkpointed = recompute_cost > 0;
  plan.offloaded_saved_bytes = solution.host_bytes;
  plan.offloaded_state_bytes = variant.assignment.state_bytes;
  plan.offloaded_gradient_bytes = variant.assignment.gradient_bytes;
  plan.offloaded_parameter_bytes = variant.assignment.parameter_bytes;
  plan.host_updates = parameters_updated_on_host(plan.trace);
  plan.budget = options_.budget;
  plan.budget.device.reset();  // the caller sets the budget that it plans for
  StepTime& time = plan.time;
  time.recompute = static_cast<double>(recompute_cost) * 1e-12;
  time.offload = std::max(0.0, time.micro - keep_all_micro_seconds_ - time.recompute);
  time.update_offload = std::max(0.0, time.update - keep_all_update_seconds_);
  plan.reasons = explain_offload(trace_, search_->graphs().front(), solution.offloaded, options_.cost, plan);
  const auto recomputed = explain_recomputation(trace_, search_->graphs().front(), solution.kept, kKindsExplained);
  plan.reasons.insert(plan.reasons.end(), recomputed.begin(), recomputed.end());
  return plan;
}

Plan ScheduleBuilder::with_overlap(Plan plan, std::optional<int64_t> budget) const {
  if (!options_.cost.exchanges_overlap || !search_ || !has_exchanges(plan.trace)) return plan;
  // Three limits of live transient bytes are tried. The first is the whole transient limit of the budget. The second is
  // 97 % of it, because placement may need more than the live bytes. The last is the live transient bytes of `plan`.
  const int64_t live = plan.live_bytes - plan.persistent_bytes;
  const CostModel all_ranks_cost = cost_of_all_ranks(options_.cost);
  const double before = step_seconds(time_of(plan.trace, all_ranks_cost));
  const int64_t budget_limit =
      budget ? transient_limit(*budget, plan.persistent_bytes) : std::numeric_limits<int64_t>::max();
  for (const int64_t limit : {budget_limit, budget_limit / 100 * 97, live}) {
    if (limit < live) continue;
    PlanChoices choices = plan.choices;
    choices.exchange_limit_bytes = limit;
    Plan placed = run_passes(plan, Stage::overlap, Stage::placement, inputs(choices));
    // Every rank compares times of the same cost model, so that all ranks make the same decision.
    if ((fits(plan, budget) && !fits(placed, budget)) || step_seconds(time_of(placed.trace, all_ranks_cost)) >= before)
      continue;
    placed.time = with_parts_of(time_of(placed.trace, options_.cost), plan.time);
    return placed;
  }
  return plan;
}

Plan ScheduleBuilder::with_scratch(Plan plan, std::optional<int64_t> budget) const {
  if (!options_.forms || !search_) return plan;
  struct Limit {
    int64_t peak, live;  // bytes of the device, and of transient buffers
    bool saves_time;     // the plan is kept only if its step is faster
  };
  const int64_t live = plan.live_bytes - plan.persistent_bytes;
  std::vector<Limit> limits;
  // Placement may need more than the live bytes, so less is tried if the first limit does not fit.
  const auto add_limits = [&](int64_t peak, bool saves_time) {
    const int64_t limit = transient_limit(peak, plan.persistent_bytes);
    for (const int64_t some : {limit, limit / 100 * 97})
      if (some >= live) limits.push_back({peak, some, saves_time});
  };
  int64_t peak = plan.peak_bytes;
  if (budget) {
    peak = std::min(*budget, plan.peak_bytes + plan.peak_bytes / 32);
    const int64_t most = std::min(*budget, plan.peak_bytes + kMaxScratchGrowth);
    if (most > peak) add_limits(most, true);
  }
  add_limits(peak, false);
  limits.push_back({peak, live, false});
  for (const Limit& limit : limits) {
    PlanChoices choices = plan.choices;
    choices.scratch_limit_bytes = limit.live;
    Plan placed = run_passes(plan, Stage::scratch, Stage::placement, inputs(choices));
    const int64_t grown = grown_ops_of(plan.trace, placed.trace);
    if (grown == 0) return plan;  // a lower limit has no other result
    if (placed.peak_bytes > limit.peak || !fits(placed, budget)) continue;
    placed.time = with_parts_of(time_of(placed.trace, options_.cost), plan.time);
    if (limit.saves_time && step_seconds(placed) >= step_seconds(plan)) continue;
    placed.reasons.push_back(scratch_reason(plan, placed, grown));
    return placed;
  }
  return plan;
}

Plan ScheduleBuilder::validated(Plan plan) const {
  return run_passes(std::move(plan), Stage::validation, Stage::validation, inputs(base_choices_));
}

bool ScheduleBuilder::fits(const Plan& plan, std::optional<int64_t> budget) const {
  return (!budget || plan.peak_bytes <= *budget) && plan.host_bytes <= options_.budget.host &&
         plan.disk_bytes <= options_.budget.disk;
}

int64_t ScheduleBuilder::transient_limit(int64_t budget, int64_t persistent) const {
  return budget - options_.budget.context - options_.budget.library - persistent;
}

double ScheduleBuilder::step_seconds(const Plan& plan) const {
  return step_seconds(plan.time);
}

bool ScheduleBuilder::is_ragged() const {
  return options_.micro_batches > 1 && trace_.segment(SegmentKind::remainder) != nullptr;
}

double ScheduleBuilder::step_seconds(const StepTime& time) const {
  return time.step(options_.micro_batches, is_ragged());
}

void observe_passes(const Trace& recorded, const Plan& plan, const PlanOptions& options, const PassObserver& observer) {
  PassInputs inputs{options, plan.choices, options.cost};
  inputs.observer = &observer;
  Plan again;
  again.trace = recorded;
  observer(report_of("recorded", again.trace), again.trace);
  again = run_passes(std::move(again), Stage::prepare, Stage::prepare, inputs);
  const Trace prepared = again.trace;
  std::optional<RecomputeSearch> search;  // provides the training graphs that the choices refer to
  if (prepared.segment(SegmentKind::micro))
    inputs.graphs = &search.emplace(prepared, options.cost, options.solver.recompute).graphs();
  again = run_passes(std::move(again), Stage::choices, Stage::placement, inputs);
  check(same_trace(again.trace, plan.trace) && again.offsets == plan.offsets &&
            again.workspace_offsets == plan.workspace_offsets,
        "the passes, run again with the choices of a plan, gave another plan");
  run_passes(plan, Stage::validation, Stage::validation, inputs);
}

}  // namespace plimsoll
