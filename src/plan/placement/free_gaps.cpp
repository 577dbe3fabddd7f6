#include "plan/placement/free_gaps.h"

#include <algorithm>
#include <map>

#include "plimsoll/trace.h"

namespace plimsoll {
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
