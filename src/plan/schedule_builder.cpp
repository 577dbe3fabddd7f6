#include "plan/schedule_builder.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "plan/explain/explain.h"
#include "plan/passes/overlap_exchanges.h"
#include "plan/pipeline.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Number of kinds of recomputed values for which a plan lists a reason.
constexpr size_t kKindsExplained = 6;

// Several segments may update one parameter. For a parameter on the device, the op on the host writes a host copy.
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
  time.norms = segment_seconds(cost, trace, "norms");
  time.micro = segment_seconds(cost, trace, "micro");
  time.accumulate = segment_seconds(cost, trace, "accumulate");
  time.remainder = segment_seconds(cost, trace, "remainder");
  time.last = segment_seconds(cost, trace, "last");
  time.update = segment_seconds(cost, trace, "update");
  time.finish = segment_seconds(cost, trace, "finish");
  return time;
}

Plan timed(Plan plan, const CostModel& cost) {
  plan.time = time_of(plan.trace, cost);
  return plan;
}

}  // namespace

Schedules::Schedules(const Trace& recorded, const PlanOptions& options, bool updates_in_backward)
    : options_(options),
      updates_in_backward_(updates_in_backward),
      trace_(prepare_trace(recorded, updates_in_backward, options_)) {
  if (!trace_.segment("micro")) return;
  search_.emplace(trace_, options_.cost, options_.solver.recompute);
  const Trace all = run(Stage::merging, Stage::merging, trace_, {}).trace;
  const StepTime at_once = time_of(all, options_.cost);
  micro_at_once_ = at_once.micro;
  update_at_once_ = at_once.update;
  seconds_at_once_ = step_of(at_once);
  if (options_.cost.exchanges_overlap)
    overlap_saved_ = exchanges_of_step(options_.cost, all, options_.micro_batches, is_ragged()).seconds;
  int64_t persistent = 0;
  for (const Buffer& buffer : all.buffers)
    if (buffer.persistent && buffer.on_device()) persistent += placed_bytes(all, buffer.bytes);
  least_at_once_ = persistent + std::ranges::max(transient_bytes_by_op(all, lifetimes_of(all))) +
                   options_.budget.context + options_.budget.library;
}

bool Schedules::small(size_t times) const {
  return trace_.ops.size() <= times * options_.solver.large_trace_ops;
}

double Schedules::update_seconds_saved() const {
  const bool on_host = options_.budget.host > 0 && options_.cost.host_link > 0 && options_.cost.host_bytes > 0;
  return on_host ? update_at_once_ : 0;
}

Plan Schedules::run(Stage first, Stage last, Trace trace, const PlanChoices& choices) const {
  Plan plan;
  plan.trace = std::move(trace);
  const std::vector<TrainingGraph>* const graphs = search_ ? &search_->graphs() : nullptr;
  return run_passes(std::move(plan), first, last, {options_, choices, options_.cost, graphs});
}

Plan Schedules::placed(const Trace& trace, PlanChoices choices) const {
  if (options_.on_schedule) options_.on_schedule();
  choices.update_in_backward = updates_in_backward_;
  return timed(run(Stage::choices, Stage::placement, trace, choices), options_.cost);
}

Plan Schedules::unchanged() const {
  PlanChoices choices;
  choices.update_in_backward = updates_in_backward_;
  return timed(run(Stage::placement, Stage::placement, trace_, choices), options_.cost);
}

Plan Schedules::with(const RecomputeAnswer& answer) const {
  PlanChoices choices;
  choices.recompute = true;
  choices.kept = answer.kept;
  Plan plan = placed(trace_, std::move(choices));
  plan.checkpointed = answer.cost > 0;
  plan.time.recompute = static_cast<double>(answer.cost) * 1e-12;
  plan.time.recompute_bound = static_cast<double>(answer.bound) * 1e-12;
  plan.reasons = explain_recomputation(trace_, search_->graphs().front(), answer.kept, kKindsExplained);
  return plan;
}

Plan Schedules::with(const Arrangement& arrangement, const OffloadAnswer& answer, bool host_updates,
                     int64_t limit) const {
  PlanChoices choices;
  choices.memory = arrangement.away.memory;
  choices.recompute = true;
  choices.kept = answer.kept;
  choices.offload = true;
  choices.offloaded = answer.moved;
  choices.host_updates = host_updates;
  choices.copy_limit_bytes = limit;
  Plan plan = placed(arrangement.trace, std::move(choices));
  int64_t again = 0;
  for (const Rebuild& rebuild : rebuilds_of(search_->graphs().front(), answer.kept))
    for (int32_t step : rebuild.steps) again += search_->graphs().front().steps[step].cost;
  plan.checkpointed = again > 0;
  plan.moved_bytes = answer.host;
  plan.moved_state_bytes = arrangement.away.state;
  plan.moved_gradient_bytes = arrangement.away.gradients;
  plan.moved_parameter_bytes = arrangement.away.parameters;
  plan.host_updates = parameters_updated_on_host(plan.trace);
  plan.budget = options_.budget;
  plan.budget.device.reset();  // the caller sets its own
  StepTime& time = plan.time;
  time.recompute = static_cast<double>(again) * 1e-12;
  time.offload = std::max(0.0, time.micro - micro_at_once_ - time.recompute);
  time.update_offload = std::max(0.0, time.update - update_at_once_);
  plan.reasons = explain_offload(trace_, search_->graphs().front(), answer.moved, options_.cost, plan);
  const auto recomputed = explain_recomputation(trace_, search_->graphs().front(), answer.kept, kKindsExplained);
  plan.reasons.insert(plan.reasons.end(), recomputed.begin(), recomputed.end());
  return plan;
}

Plan Schedules::with_overlap(Plan plan, std::optional<int64_t> budget) const {
  if (!options_.cost.exchanges_overlap || !search_ || !has_exchanges(plan.trace)) return plan;
  // The limits are the bytes that the budget leaves, 97 % of them (a placement may take more than its live bytes), and
  // the present peak of live bytes.
  const int64_t live = plan.live_bytes - plan.persistent_bytes;
  const CostModel shared = cost_of_all_ranks(options_.cost);
  const double before = step_of(time_of(plan.trace, shared));
  const int64_t most = budget ? limit_under(*budget, plan.persistent_bytes) : std::numeric_limits<int64_t>::max();
  for (const int64_t limit : {most, most / 100 * 97, live}) {
    if (limit < live) continue;
    PlanChoices choices = plan.choices;
    choices.exchange_limit_bytes = limit;
    Plan placed = run_passes(plan, Stage::overlap, Stage::placement, {options_, choices, options_.cost});
    // Judged with the shared cost model, so that all ranks decide alike.
    if ((fits(plan, budget) && !fits(placed, budget)) || step_of(time_of(placed.trace, shared)) >= before) continue;
    const StepTime searched = plan.time;
    placed.time = time_of(placed.trace, options_.cost);
    placed.time.recompute = searched.recompute;
    placed.time.offload = searched.offload;
    placed.time.update_offload = searched.update_offload;
    placed.time.recompute_bound = searched.recompute_bound;
    return placed;
  }
  return plan;
}

Plan Schedules::validated(Plan plan) const {
  const PlanChoices choices = plan.choices;
  return run_passes(std::move(plan), Stage::validation, Stage::validation, {options_, choices, options_.cost});
}

bool Schedules::fits(const Plan& plan, std::optional<int64_t> budget) const {
  return (!budget || plan.peak_bytes <= *budget) && plan.host_bytes <= options_.budget.host &&
         plan.disk_bytes <= options_.budget.disk;
}

int64_t Schedules::limit_under(int64_t budget, int64_t persistent) const {
  return budget - options_.budget.context - options_.budget.library - persistent;
}

double Schedules::step_of(const Plan& plan) const {
  return step_of(plan.time);
}

bool Schedules::is_ragged() const {
  return options_.micro_batches > 1 && trace_.segment("remainder") != nullptr;
}

double Schedules::step_of(const StepTime& time) const {
  return time.step(options_.micro_batches, is_ragged());
}

}  // namespace plimsoll
