#include "plan/placement/assign_offsets.h"

#include <algorithm>
#include <map>
#include <utility>

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

// All other buffers of one arena, and the scratch of the ops that run in it, with the offset of each.
struct Transient {
  std::vector<PlacementItem> items;
  std::vector<int64_t*> offsets;
};

Transient transient_of(const std::vector<Lifetime>& lifetimes, Memory memory, Plan& plan) {
  const Trace& trace = plan.trace;
  Transient transient;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || buffer.memory != memory || lifetimes[b].birth >= lifetimes[b].death) continue;
    transient.items.push_back({lifetimes[b].birth, lifetimes[b].death, buffer.bytes});
    transient.offsets.push_back(&plan.offsets[b]);
  }
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const Memory runs_in = trace.ops[i].on_host ? Memory::host : Memory::device;
    if (trace.ops[i].workspace_bytes == 0 || runs_in != memory) continue;
    const auto at = static_cast<int64_t>(i);
    transient.items.push_back({at, at + 1, trace.ops[i].workspace_bytes});
    transient.offsets.push_back(&plan.workspace_offsets[i]);
  }
  return transient;
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
  const PlacementOptions placement{.alignment = plan.trace.alignment,
                                   .effort = options.solver.placement_effort,
                                   .tree_search = options.solver.tree_search};
  for (const auto& [memory, bytes] : {std::pair(Memory::device, &plan.arena_bytes),
                                      {Memory::host, &plan.host_bytes},
                                      {Memory::disk, &plan.disk_bytes}}) {
    // Transient buffers are above the persistent ones.
    const int64_t persistent = place_persistent(plan.trace, memory, plan.offsets);
    const Transient transient = transient_of(lifetimes, memory, plan);
    const Placement placed = place(transient.items, placement);
    for (size_t i = 0; i < placed.offsets.size(); ++i) *transient.offsets[i] = persistent + placed.offsets[i];
    *bytes = persistent + placed.height;
    if (memory != Memory::device) continue;
    plan.persistent_bytes = persistent;
    plan.live_bytes = persistent + placed.lower_bound;
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

namespace {

FreeGap largest_gap(const std::map<int64_t, int64_t>& live, int64_t begin, int64_t end) {
  FreeGap best;
  int64_t at = begin;
  const auto offer = [&](int64_t until) {
    if (until - at > best.bytes) best = {at, until - at};
  };
  for (const auto& [offset, bytes] : live) {
    offer(offset);
    at = std::max(at, offset + bytes);
  }
  offer(end);
  return best;
}

}  // namespace

std::vector<FreeGap> largest_free_gaps(const Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<std::vector<BufferId>> births(trace.ops.size() + 1), deaths(trace.ops.size() + 1);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || !buffer.on_device() || buffer.bytes == 0 || plan.offsets[b] < 0) continue;
    births[lifetimes[b].birth].push_back(static_cast<BufferId>(b));
    deaths[lifetimes[b].death].push_back(static_cast<BufferId>(b));
  }
  std::vector<FreeGap> gaps(trace.ops.size());
  std::map<int64_t, int64_t> live;  // offset -> bytes; the ranges are disjoint because the plan is sound
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    for (BufferId b : deaths[i]) live.erase(plan.offsets[b]);
    for (BufferId b : births[i]) live[plan.offsets[b]] = placed_bytes(trace, trace.buffers[b].bytes);
    const bool workspace = plan.workspace_offsets[i] >= 0 && !trace.ops[i].on_host;
    if (workspace) live[plan.workspace_offsets[i]] = trace.ops[i].workspace_bytes;
    if (!trace.ops[i].on_host) gaps[i] = largest_gap(live, plan.persistent_bytes, plan.arena_bytes);
    if (workspace) live.erase(plan.workspace_offsets[i]);
  }
  return gaps;
}

}  // namespace plimsoll
