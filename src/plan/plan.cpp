#include "plimsoll/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "plan/explain.h"
#include "plan/passes/recompute.h"
#include "plan/pipeline.h"
#include "plan/recompute_search.h"
#include "plan/validator.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/liveness.h"
#include "plimsoll/placement.h"

namespace plimsoll {
namespace {

void learn_workspace(Trace& trace, const WorkspaceModel& model) {
  if (!model) return;
  for (Op& op : trace.ops)
    if (const auto bytes = model(op)) op.workspace_bytes = placed_bytes(*bytes);
}

// Live bytes at each op: transient buffers and workspace; persistent ones are always there.
std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (trace.buffers[b].persistent || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(trace.buffers[b].bytes);
    change[lifetimes[b].death] -= placed_bytes(trace.buffers[b].bytes);
  }
  std::vector<int64_t> live(trace.ops.size());
  int64_t sum = 0;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    sum += change[i];
    live[i] = sum + trace.ops[i].workspace_bytes;
  }
  return live;
}

// Persistent buffers lie at the bottom: they never move, whatever is planned above them.
int64_t place_persistent(const Trace& trace, std::vector<int64_t>& offsets) {
  int64_t end = 0;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].persistent) continue;
    offsets[b] = end;
    end += placed_bytes(trace.buffers[b].bytes);
  }
  return end;
}

void place_transient(const std::vector<Lifetime>& lifetimes, Plan& plan) {
  const Trace& trace = plan.trace;
  std::vector<PlacementItem> items;
  std::vector<int64_t*> targets;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (trace.buffers[b].persistent || lifetimes[b].birth >= lifetimes[b].death) continue;
    items.push_back({lifetimes[b].birth, lifetimes[b].death, trace.buffers[b].bytes});
    targets.push_back(&plan.offsets[b]);
  }
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (trace.ops[i].workspace_bytes == 0) continue;
    const auto at = static_cast<int64_t>(i);
    items.push_back({at, at + 1, trace.ops[i].workspace_bytes});
    targets.push_back(&plan.workspace_offsets[i]);
  }
  PlacementOptions options;
  options.alignment = kArenaAlignment;
  const Placement placement = place(items, options);
  for (size_t i = 0; i < items.size(); ++i) *targets[i] = plan.persistent_bytes + placement.offsets[i];
  plan.arena_bytes = plan.persistent_bytes + placement.height;
  plan.live_bytes = plan.persistent_bytes + placement.lower_bound;
}

void add_to_breakdown(Breakdown& breakdown, Role role, int64_t bytes) {
  switch (role) {
    case Role::parameter:
      breakdown.parameters += bytes;
      break;
    case Role::gradient:
      breakdown.gradients += bytes;
      break;
    case Role::optimizer_state:
      breakdown.optimizer_state += bytes;
      break;
    case Role::activation:
    case Role::temporary:
      breakdown.activations += bytes;
      break;
    case Role::input:
      breakdown.inputs += bytes;
      break;
    case Role::workspace:
      breakdown.workspace += bytes;
      break;
  }
}

void fill_breakdown(const std::vector<Lifetime>& lifetimes, const PlanOptions& options, Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes);
  plan.peak_op = static_cast<int32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (trace.buffers[b].persistent || lifetimes[b].live_at(plan.peak_op))
      add_to_breakdown(plan.breakdown, trace.buffers[b].role, placed_bytes(trace.buffers[b].bytes));
  if (!trace.ops.empty()) plan.breakdown.workspace += trace.ops[plan.peak_op].workspace_bytes;
  plan.breakdown.context = options.context_bytes;
  plan.breakdown.workspace += options.library_bytes;
  plan.breakdown.fragmentation = plan.peak_bytes - plan.breakdown.total();
}

// Lays out one finished schedule.
Plan lay_out(Trace trace, const PlanOptions& options) {
  Plan plan;
  plan.trace = std::move(trace);
  plan.offsets.assign(plan.trace.buffers.size(), -1);
  plan.workspace_offsets.assign(plan.trace.ops.size(), -1);
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  plan.persistent_bytes = place_persistent(plan.trace, plan.offsets);
  place_transient(lifetimes, plan);
  plan.peak_bytes = plan.arena_bytes + options.context_bytes + options.library_bytes;
  fill_breakdown(lifetimes, options, plan);
  return plan;
}

// How often a schedule is laid out anew because placement took more than the sum of live bytes.
constexpr int kMostAttempts = 12;

// Kinds of rebuilt values that have a reason of their own.
constexpr size_t kKindsExplained = 6;

}  // namespace

struct Planner::Impl {
  Impl(const Trace& trace, const PlanOptions& plan_options) : options(plan_options), prepared(trace) {
    learn_workspace(prepared, options.workspace);
    prepared = prepare_trace(std::move(prepared));
    if (!prepared.segment("micro")) return;
    search.emplace(prepared, options.cost);
    switch (options.gradient_checkpointing) {
      case Choice::off:
        pinned = schedule(search->keep_everything());
        pinned->reasons.insert(pinned->reasons.begin(), {"gradient_checkpointing: off", "set in the job"});
        break;
      case Choice::on:
        pinned = schedule(search->drop_blocks());
        pinned->reasons.insert(
            pinned->reasons.begin(),
            pinned->checkpointed
                ? Reason{"gradient_checkpointing: on", "set in the job: of each block only its input is kept"}
                : Reason{"gradient_checkpointing: off", "set in the job, but the model has no blocks to recompute"});
        break;
      case Choice::automatic:
        whole = schedule(search->keep_everything());
        leanest = schedule(search->leanest());
        break;
    }
  }

  Plan plan(std::optional<int64_t> budget) const {
    const auto start = std::chrono::steady_clock::now();
    Plan plan = !search ? lay_out(prepared, options) : pinned ? *pinned : choose(budget);
    plan.fits = fits(plan, budget);
    plan.budget_bytes = budget.value_or(0);
    if (plan.minimum_budget_bytes == 0) plan.minimum_budget_bytes = plan.peak_bytes;
    plan.time.micro = segment_seconds(options.cost, plan.trace, "micro");
    plan.time.accumulate = segment_seconds(options.cost, plan.trace, "accumulate");
    plan.time.remainder = segment_seconds(options.cost, plan.trace, "remainder");
    plan.time.update = segment_seconds(options.cost, plan.trace, "update");
    if (const std::string fault = find_fault(plan); !fault.empty()) throw InternalError("unsound plan: " + fault);
    plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return plan;
  }

  Plan schedule(const RecomputeAnswer& answer) const {
    std::vector<RecomputeChoice> choices;
    for (const TrainingGraph& graph : search->graphs()) choices.push_back({&graph, answer.kept});
    Plan plan = lay_out(recompute(prepared, choices), options);
    plan.checkpointed = answer.cost > 0;
    plan.time.recompute = static_cast<double>(answer.cost) * 1e-12;
    plan.time.recompute_bound = static_cast<double>(answer.bound) * 1e-12;
    plan.reasons = explain_recomputation(prepared, search->graphs().front(), answer.kept, kKindsExplained);
    return plan;
  }

  static bool fits(const Plan& plan, std::optional<int64_t> budget) { return !budget || plan.peak_bytes <= *budget; }

  // The least time that fits. The search counts live bytes; where placement takes more, it is asked for less.
  Plan choose(std::optional<int64_t> budget) const {
    const int64_t minimum = std::min(whole->peak_bytes, leanest->peak_bytes);
    Plan best = fits(*whole, budget) || whole->peak_bytes == minimum ? *whole : *leanest;
    if (fits(best, budget) && best.checkpointed) {
      int64_t limit = *budget - options.context_bytes - options.library_bytes - best.persistent_bytes;
      double bound = 0;
      for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
        const auto answer = search->cheapest(limit);
        if (!answer) break;
        // Of the budget itself: later attempts aim lower than what is allowed.
        if (attempt == 0) bound = static_cast<double>(answer->bound) * 1e-12;
        Plan plan = schedule(*answer);
        if (fits(plan, budget)) {
          if (plan.time.recompute < best.time.recompute) best = std::move(plan);
          break;
        }
        limit -= plan.peak_bytes - *budget;
      }
      best.time.recompute_bound = std::min(bound, best.time.recompute);
    }
    best.minimum_budget_bytes = minimum;
    best.reasons.insert(best.reasons.begin(), recompute_reason(best, budget));
    return best;
  }

  Reason recompute_reason(const Plan& plan, std::optional<int64_t> budget) const {
    const std::string decision = plan.checkpointed ? "gradient_checkpointing: on" : "gradient_checkpointing: off";
    if (!budget) return {decision, "no budget was stated"};
    const std::string without = format_bytes(whole->peak_bytes), stated = format_bytes(*budget);
    if (!plan.checkpointed && !fits(plan, budget))
      return {decision, "nothing that forward saves can be rebuilt in fewer bytes"};
    if (!plan.checkpointed) return {decision, fmt::format("the step fits without: {} of {}", without, stated)};
    return {decision, fmt::format("without it the step takes {}, with it {}; the budget is {}", without,
                                  format_bytes(plan.peak_bytes), stated)};
  }

  const PlanOptions options;
  Trace prepared;
  std::optional<RecomputeSearch> search;
  std::optional<Plan> pinned, whole, leanest;
};

Planner::Planner(const Trace& trace, const PlanOptions& options) : impl_(std::make_unique<Impl>(trace, options)) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;

Plan Planner::plan(std::optional<int64_t> memory_budget) const {
  return impl_->plan(memory_budget);
}

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Planner(trace, options).plan(options.memory_budget);
  plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

std::vector<Resident> largest_at_peak(const Plan& plan, size_t count) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  std::vector<Resident> residents;
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b) {
    const Buffer& buffer = plan.trace.buffers[b];
    if (buffer.persistent || lifetimes[b].live_at(plan.peak_op))
      residents.push_back({buffer.label, buffer.role, buffer.bytes});
  }
  if (!plan.trace.ops.empty()) {
    const Op& op = plan.trace.ops[plan.peak_op];
    if (op.workspace_bytes > 0) residents.push_back({"scratch of " + op.name, Role::workspace, op.workspace_bytes});
  }
  std::stable_sort(residents.begin(), residents.end(),
                   [](const Resident& a, const Resident& b) { return a.bytes > b.bytes; });
  if (residents.size() > count) residents.resize(count);
  return residents;
}

}  // namespace plimsoll
