// Declares how many bytes a step touches between two uses of an operand. Declares OperandCaches, which moves the
// operands of an op to the cache that this distance leaves them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Cache that holds an operand.
enum class CacheLevel : uint8_t {
  core,    ///< second-level caches of the cores
  shared,  ///< last level, shared by cores
  memory,  ///< no cache
};

/// A machine's caches that hold data, in bytes.
struct CacheSizes {
  int64_t core = 0;    ///< bytes of a second-level cache
  int64_t shared = 0;  ///< bytes of the last level
};

/// Returns the cache that holds an operand at this distance of reuse_distances() in a step on `threads` cores.
CacheLevel cache_level_of(int64_t distance, const CacheSizes& sizes, int64_t threads);

/// Moves the operands of an op to the caches that they have in a step, where other ops run between two uses of an
/// operand. Timed with operands still cached from the run before, ops of small steps took as little as half of their
/// time in a step. Timed with all operands in a shared cache, ops of larger steps did too.
class OperandCaches {
 public:
  OperandCaches();

  /// Moves each range of memory according to its reuse distance. Both lists have the same length. Uses all CPU threads;
  /// changes no byte. The first call allocates twice the bytes of a second-level cache.
  void prepare(std::span<const std::span<const std::byte>> operands, std::span<const int64_t> distances);

 private:
  /// Reads twice the bytes of a second-level cache on each thread.
  void evict_from_cores();

  CacheSizes sizes_;
  std::vector<std::byte> memory_;  // memory that each thread reads to evict other lines
};

/// Reuse distance of an operand without elements, of one in host memory or on disk, and of one whose pages no op of the
/// step touches (an evaluation's).
constexpr int64_t kNotCached = std::numeric_limits<int64_t>::max();

/// Returns the reuse distance, in bytes, of each operand of each op of the plan, operands in the order of
/// for_each_view(). It is the number of bytes that ops of a repeated step touch from the start of the last op that
/// touched the same page of 4 KiB to the start of this op. Bytes count again for each op that touches them, unlike in
/// the usual reuse distance, so it is an upper bound of that. For an operand of several pages it is the median of at
/// most 64 of them. The place in the arena counts, not the buffer: a new buffer often takes the place of one that was
/// just used. Each segment of the step counts once. Ops that initialize have no distances.
std::vector<std::vector<int64_t>> reuse_distances(const Plan& plan);

}  // namespace plimsoll
