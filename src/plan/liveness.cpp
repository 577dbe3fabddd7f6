#include "plimsoll/liveness.h"

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

}  // namespace plimsoll
