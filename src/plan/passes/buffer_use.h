// Declares which buffers ops use, for passes that merge ops.
#pragma once

#include <set>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Calls `visit(BufferId)` once for every buffer that `op` reads or writes.
template <typename Visit>
void for_each_buffer(const Op& op, const Visit& visit) {
  std::set<BufferId> seen;
  for_each_view(op, [&](const View& view, bool) {
    if (seen.insert(view.buffer).second) visit(view.buffer);
  });
}

/// Returns for each buffer the number of ops that use it. 0: callers can see it too (it is persistent, an output, or
/// has a name).
std::vector<int32_t> uses_of(const Trace& trace);

}  // namespace plimsoll
