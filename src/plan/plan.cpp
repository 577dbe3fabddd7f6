#include "plimsoll/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "plan/liveness.h"
#include "plan/pipeline.h"
#include "plan/placement.h"
#include "plan/validator.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

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

void fill_breakdown(const std::vector<Lifetime>& lifetimes, int64_t context_bytes, Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes);
  plan.peak_op = static_cast<int32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (trace.buffers[b].persistent || lifetimes[b].live_at(plan.peak_op))
      add_to_breakdown(plan.breakdown, trace.buffers[b].role, placed_bytes(trace.buffers[b].bytes));
  if (!trace.ops.empty()) plan.breakdown.workspace += trace.ops[plan.peak_op].workspace_bytes;
  plan.breakdown.context = context_bytes;
  plan.breakdown.fragmentation = plan.arena_bytes + context_bytes - plan.breakdown.total();
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
  plan.peak_bytes = plan.arena_bytes + options.context_bytes;
  fill_breakdown(lifetimes, options.context_bytes, plan);
  return plan;
}

class Planner {
 public:
  Planner(const Trace& trace, const PlanOptions& options) : options_(options), recorded_(trace) {
    learn_workspace(recorded_, options.workspace);
    blocks_ = blocks_to_recompute(recorded_);
  }

  Plan run() {
    switch (options_.gradient_checkpointing) {
      case Choice::off:
        return decide(0, 0);
      case Choice::on:
        return decide(blocks_, blocks_);
      case Choice::automatic:
        return decide(0, blocks_);
    }
    throw InternalError("unknown choice");
  }

 private:
  Plan schedule(int64_t blocks) const {
    Plan plan = lay_out(run_pipeline(recorded_, {.recompute_blocks = blocks}), options_);
    plan.checkpointed = blocks > 0;
    return plan;
  }

  bool fits(const Plan& plan) const { return !options_.memory_budget || plan.peak_bytes <= *options_.memory_budget; }

  // Recomputing more blocks takes fewer bytes and more time: the fewest that fit, from `least` to `most`.
  Plan decide(int64_t least, int64_t most) const {
    Plan best = schedule(least);
    const int64_t least_peak = best.peak_bytes;
    int64_t chosen = least, minimum = best.peak_bytes;
    if (most > least) {
      Plan full = schedule(most);
      minimum = std::min(minimum, full.peak_bytes);
      if (!fits(best)) {
        const bool full_fits = fits(full);
        if (full_fits || full.peak_bytes < best.peak_bytes) {
          best = std::move(full);
          chosen = most;
        }
        for (int64_t low = least + 1, high = most; full_fits && low < high;) {
          const int64_t middle = (low + high) / 2;
          Plan plan = schedule(middle);
          if (fits(plan)) {
            best = std::move(plan);
            chosen = high = middle;
          } else {
            low = middle + 1;
          }
        }
      }
    }
    best.fits = fits(best);
    best.budget_bytes = options_.memory_budget.value_or(0);
    best.minimum_budget_bytes = minimum;
    best.reasons.push_back(checkpointing_reason(chosen, least_peak, best));
    return best;
  }

  Reason checkpointing_reason(int64_t chosen, int64_t without, const Plan& plan) const {
    const std::string value = chosen == 0         ? "off"
                              : chosen == blocks_ ? "on"
                                                  : fmt::format("{} of {} blocks", chosen, blocks_);
    std::string why;
    if (options_.gradient_checkpointing != Choice::automatic)
      why = "set in the job";
    else if (chosen == 0 && blocks_ == 0)
      why = "the model has no repeated blocks to recompute";
    else if (chosen == 0 && !options_.memory_budget)
      why = "no budget was stated";
    else if (chosen == 0)
      why = fmt::format("the step fits without: {} of {}", format_bytes(plan.peak_bytes),
                        format_bytes(*options_.memory_budget));
    else
      why = fmt::format("without it the step takes {}, with it {}; the budget is {}", format_bytes(without),
                        format_bytes(plan.peak_bytes), format_bytes(*options_.memory_budget));
    return {"gradient_checkpointing: " + value, why};
  }

  const PlanOptions& options_;
  Trace recorded_;
  int64_t blocks_ = 0;
};

}  // namespace

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Planner(trace, options).run();
  if (const std::string fault = find_fault(plan); !fault.empty()) throw InternalError("unsound plan: " + fault);
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
