#include "plimsoll/trace.h"

#include <algorithm>

namespace plimsoll {

std::vector<Lifetime> lifetimes_of(const Trace& trace) {
  const auto end = static_cast<int32_t>(trace.ops.size());
  std::vector<Lifetime> lifetimes(trace.buffers.size(), Lifetime{end, 0});
  for (int32_t i = 0; i < end; ++i) {
    for_each_view(trace.ops[i], [&](const View& view, bool) {
      Lifetime& lifetime = lifetimes[view.buffer];
      lifetime.birth = std::min(lifetime.birth, i);
      lifetime.death = i + 1;
    });
  }
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    Lifetime& lifetime = lifetimes[b];
    if (trace.buffers[b].persistent)
      lifetime = {0, end};
    else if (lifetime.birth >= lifetime.death)
      lifetime = {0, 0};
    else if (trace.buffers[b].output)
      lifetime.death = end;
  }
  return lifetimes;
}

std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes) {
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.persistent || !buffer.on_device() || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(trace, buffer.bytes);
    change[lifetimes[b].death] -= placed_bytes(trace, buffer.bytes);
  }
  std::vector<int64_t> live(trace.ops.size());
  int64_t sum = 0;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    sum += change[i];
    live[i] = sum + (trace.ops[i].on_host ? 0 : trace.ops[i].workspace_bytes);
  }
  return live;
}

}  // namespace plimsoll
