#include "plan/lay_out.h"

#include <algorithm>

#include "plimsoll/liveness.h"
#include "plimsoll/placement.h"

namespace plimsoll {
namespace {

// Persistent buffers lie at the bottom: whatever is planned above them, they do not move as long as the same ones lie
// in host memory.
int64_t place_persistent(const Trace& trace, bool host, std::vector<int64_t>& offsets) {
  int64_t end = 0;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].persistent || trace.buffers[b].host != host) continue;
    offsets[b] = end;
    end += placed_bytes(trace.buffers[b].bytes);
  }
  return end;
}

// The rest of one arena, above its persistent buffers.
Placement place_transient(const std::vector<Lifetime>& lifetimes, bool host, int64_t above, Plan& plan) {
  const Trace& trace = plan.trace;
  std::vector<PlacementItem> items;
  std::vector<int64_t*> targets;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || buffer.host != host || lifetimes[b].birth >= lifetimes[b].death) continue;
    items.push_back({lifetimes[b].birth, lifetimes[b].death, buffer.bytes});
    targets.push_back(&plan.offsets[b]);
  }
  for (size_t i = 0; !host && i < trace.ops.size(); ++i) {
    if (trace.ops[i].workspace_bytes == 0) continue;
    const auto at = static_cast<int64_t>(i);
    items.push_back({at, at + 1, trace.ops[i].workspace_bytes});
    targets.push_back(&plan.workspace_offsets[i]);
  }
  PlacementOptions options;
  options.alignment = kArenaAlignment;
  Placement placement = place(items, options);
  for (size_t i = 0; i < items.size(); ++i) *targets[i] = above + placement.offsets[i];
  return placement;
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
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (!buffer.host && (buffer.persistent || lifetimes[b].live_at(plan.peak_op)))
      add_to_breakdown(plan.breakdown, buffer.role, placed_bytes(buffer.bytes));
  }
  if (!trace.ops.empty()) plan.breakdown.workspace += trace.ops[plan.peak_op].workspace_bytes;
  plan.breakdown.context = options.context_bytes;
  plan.breakdown.workspace += options.library_bytes;
  plan.breakdown.fragmentation = plan.peak_bytes - plan.breakdown.total();
}

}  // namespace

Plan lay_out(Trace trace, const PlanOptions& options) {
  Plan plan;
  plan.trace = std::move(trace);
  plan.offsets.assign(plan.trace.buffers.size(), -1);
  plan.workspace_offsets.assign(plan.trace.ops.size(), -1);
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  plan.persistent_bytes = place_persistent(plan.trace, /*host=*/false, plan.offsets);
  const Placement device = place_transient(lifetimes, /*host=*/false, plan.persistent_bytes, plan);
  plan.arena_bytes = plan.persistent_bytes + device.height;
  plan.live_bytes = plan.persistent_bytes + device.lower_bound;
  plan.host_bytes = place_persistent(plan.trace, /*host=*/true, plan.offsets);
  plan.host_bytes += place_transient(lifetimes, /*host=*/true, plan.host_bytes, plan).height;
  plan.peak_bytes = plan.arena_bytes + options.context_bytes + options.library_bytes;
  fill_breakdown(lifetimes, options, plan);
  return plan;
}

}  // namespace plimsoll
