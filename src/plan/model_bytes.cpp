#include <algorithm>

#include "plimsoll/liveness.h"
#include "plimsoll/plan.h"

namespace plimsoll {

int64_t most_model_bytes(const Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    const bool counts =
        buffer.role == Role::parameter || buffer.role == Role::gradient || buffer.role == Role::optimizer_state;
    if (!counts || !buffer.on_device() || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(buffer.bytes);
    change[lifetimes[b].death] -= placed_bytes(buffer.bytes);
  }
  int64_t live = 0, most = 0;
  for (int64_t each : change) most = std::max(most, live += each);
  return most;
}

}  // namespace plimsoll
