// When each buffer of a trace is born and when it dies.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Half-open, in op indices: [birth, death). An unused buffer has birth == death.
struct Lifetime {
  int32_t birth = 0;
  int32_t death = 0;
  /// Returns whether the buffer is alive at op `op`.
  bool live_at(int32_t op) const { return birth <= op && op < death; }
};

/// By buffer. A buffer lives from the first op that touches it to the last. A persistent buffer lives for the whole
/// trace, and an output from its first write to the end: the host reads it after the segment.
std::vector<Lifetime> lifetimes_of(const Trace& trace);

/// Live bytes on the device while each op runs: buffers that are not persistent, and the op's scratch.
std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes);

/// Bytes as placed: rounded up to the arena's alignment.
constexpr int64_t placed_bytes(int64_t bytes, int64_t alignment = kArenaAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
/// Bytes as placed: rounded up to the trace's alignment.
inline int64_t placed_bytes(const Trace& trace, int64_t bytes) {
  return placed_bytes(bytes, trace.alignment);
}

}  // namespace plimsoll
