// Declares OperandCaches, which moves the operands of an op to the cache that they have in a step, before the op is
// timed by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// Returns the cache that holds an operand at this reuse distance (run/reuse_distances.h) in a step on `threads` cores.
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

}  // namespace plimsoll
