#include "plan/placement/assign_offsets.h"

#include <algorithm>
#include <utility>

#include "plan/types/add_to_breakdown.h"
#include "plimsoll/placement.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Places persistent buffers at the bottom of each arena. So they keep their offsets in every plan in which the same
// buffers are in the same memory.
int64_t place_persistent(const Trace& trace, Memory memory, std::vector<int64_t>& offsets) {
  int64_t end = 0;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].persistent || trace.buffers[b].memory != memory) continue;
    offsets[b] = end;
    end += placed_bytes(trace, trace.buffers[b].bytes);
  }
  return end;
}

// Places all other buffers of one arena above its persistent buffers.
Placement place_transient(const std::vector<Lifetime>& lifetimes, Memory memory, int64_t above,
                          const SolverParameters& solver, Plan& plan) {
  const Trace& trace = plan.trace;
  std::vector<PlacementItem> items;
  std::vector<int64_t*> targets;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || buffer.memory != memory || lifetimes[b].birth >= lifetimes[b].death) continue;
    items.push_back({lifetimes[b].birth, lifetimes[b].death, buffer.bytes});
    targets.push_back(&plan.offsets[b]);
  }
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const Memory runs_in = trace.ops[i].on_host ? Memory::host : Memory::device;
    if (trace.ops[i].workspace_bytes == 0 || runs_in != memory) continue;
    const auto at = static_cast<int64_t>(i);
    items.push_back({at, at + 1, trace.ops[i].workspace_bytes});
    targets.push_back(&plan.workspace_offsets[i]);
  }
  PlacementOptions options;
  options.alignment = trace.alignment;
  options.effort = solver.placement_effort;
  options.tree_search = solver.tree_search;
  Placement placement = place(items, options);
  for (size_t i = 0; i < items.size(); ++i) *targets[i] = above + placement.offsets[i];
  return placement;
}

void fill_breakdown(const std::vector<Lifetime>& lifetimes, const PlanOptions& options, Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes);
  plan.peak_op = static_cast<int32_t>(std::max_element(live.begin(), live.end()) - live.begin());
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.on_device() && (buffer.persistent || lifetimes[b].live_at(plan.peak_op)))
      add_to_breakdown(plan.breakdown, buffer.role, placed_bytes(trace, buffer.bytes));
  }
  if (!trace.ops.empty() && !trace.ops[plan.peak_op].on_host)
    plan.breakdown.workspace += trace.ops[plan.peak_op].workspace_bytes;
  plan.breakdown.context = options.budget.context;
  plan.breakdown.workspace += options.budget.library;
  plan.breakdown.fragmentation = plan.peak_bytes - plan.breakdown.total();
}

}  // namespace

void assign_offsets(Plan& plan, const PlanOptions& options) {
  plan.offsets.assign(plan.trace.buffers.size(), -1);
  plan.workspace_offsets.assign(plan.trace.ops.size(), -1);
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  plan.persistent_bytes = place_persistent(plan.trace, Memory::device, plan.offsets);
  const Placement device = place_transient(lifetimes, Memory::device, plan.persistent_bytes, options.solver, plan);
  plan.arena_bytes = plan.persistent_bytes + device.height;
  plan.live_bytes = plan.persistent_bytes + device.lower_bound;
  for (const auto& [memory, bytes] : {std::pair(Memory::host, &plan.host_bytes), {Memory::disk, &plan.disk_bytes}}) {
    *bytes = place_persistent(plan.trace, memory, plan.offsets);
    *bytes += place_transient(lifetimes, memory, *bytes, options.solver, plan).height;
  }
  plan.peak_bytes = plan.arena_bytes + options.budget.context + options.budget.library;
  plan.breakdown = {};
  fill_breakdown(lifetimes, options, plan);
}

Plan assign_offsets(Trace trace, const PlanOptions& options) {
  Plan plan;
  plan.trace = std::move(trace);
  assign_offsets(plan, options);
  return plan;
}

}  // namespace plimsoll
