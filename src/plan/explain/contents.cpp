// Implements the reports on the contents of a plan's memory: the buffers at the peak, and bytes by role.
#include <algorithm>

#include "plimsoll/plan.h"
#include "plimsoll/trace.h"

namespace plimsoll {

int64_t peak_model_bytes(const Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    const bool counts =
        buffer.role == Role::parameter || buffer.role == Role::gradient || buffer.role == Role::optimizer_state;
    if (!counts || !buffer.on_device() || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(trace, buffer.bytes);
    change[lifetimes[b].death] -= placed_bytes(trace, buffer.bytes);
  }
  int64_t live = 0, most = 0;
  for (int64_t each : change) most = std::max(most, live += each);
  return most;
}

std::vector<Resident> largest_at_peak(const Plan& plan, size_t count) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  std::vector<Resident> residents;
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b) {
    const Buffer& buffer = plan.trace.buffers[b];
    if (buffer.on_device() && (buffer.persistent || lifetimes[b].live_at(plan.peak_op)))
      residents.push_back({buffer.label, buffer.role, buffer.bytes});
  }
  if (!plan.trace.ops.empty()) {
    const Op& op = plan.trace.ops[plan.peak_op];
    if (op.workspace_bytes > 0 && !op.on_host)
      residents.push_back({"scratch of " + op.name, Role::workspace, op.workspace_bytes});
  }
  std::stable_sort(residents.begin(), residents.end(),
                   [](const Resident& a, const Resident& b) { return a.bytes > b.bytes; });
  if (residents.size() > count) residents.resize(count);
  return residents;
}

}  // namespace plimsoll
