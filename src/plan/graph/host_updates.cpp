#include "plan/graph/host_updates.h"

#include <algorithm>

#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Returns whether the op's own operands allow it to run on the host.
bool is_candidate(const Trace& trace, const Op& op) {
  if (op.phase != Phase::update || op.copy != CopyStage::none || op.random_id >= 0 || !op.results.empty()) return false;
  bool good = true, state = false;
  for_each_view(op, [&](const View& view, bool written) {
    const Buffer& buffer = trace.buffers[view.buffer];
    if (buffer.memory == Memory::disk) good = false;
    if (!written) return;
    if (!buffer.persistent && buffer.role == Role::gradient) return;
    good = good && buffer.persistent;
    if (buffer.memory == Memory::host)
      state = state || buffer.role == Role::optimizer_state;
    else
      good = good && buffer.role == Role::parameter;
  });
  return good && state;
}

}  // namespace

std::vector<char> host_updates(const Trace& trace) {
  std::vector<char> result(trace.ops.size(), 0);
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int32_t> last_use(trace.buffers.size()), updates(trace.buffers.size());
  for (const Segment& segment : trace.segments) {
    std::fill(last_use.begin(), last_use.end(), -1);
    std::fill(updates.begin(), updates.end(), 0);
    for (int32_t i = segment.begin; i < segment.end; ++i)
      for_each_view(trace.ops[i], [&](const View& view, bool) {
        if (trace.ops[i].phase == Phase::update && last_use[view.buffer] != i) ++updates[view.buffer];
        last_use[view.buffer] = i;
      });
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      if (!is_candidate(trace, trace.ops[i])) continue;
      bool alone = true;
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        if (!written) return;
        if (!trace.buffers[view.buffer].persistent) {
          alone = alone && lifetimes[view.buffer].death == i + 1;
          return;
        }
        const bool last = last_use[view.buffer] == i || !trace.buffers[view.buffer].on_device();
        alone = alone && updates[view.buffer] == 1 && last;
      });
      result[i] = alone;
    }
  }
  return result;
}

}  // namespace plimsoll
