// Declares OperandCaches, which gives the operands of an op that is timed alone the place in the caches that a step
// gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

/// Brings the operands of an op to where a step has them: in the caches of a core, in a shared cache, or in memory. In
/// a step other ops run between an op and those that touched its operands before. With operands of the run before, ops
/// of small steps were up to twice as fast, and with all operands in a shared cache, ops of larger steps too.
class OperandCaches {
 public:
  OperandCaches();

  /// Moves each range of memory according to its distance (run/operand_distances.h, bytes). `distances` has as many
  /// entries as `operands`. Uses all CPU threads; changes no byte.
  void prepare(std::span<const std::span<const std::byte>> operands, std::span<const int64_t> distances);

 private:
  /// Reads twice the bytes of a second-level cache on each thread.
  void evict();

  int64_t core_bytes_;             // of a second-level cache
  int64_t shared_bytes_;           // of the last level
  std::vector<std::byte> memory_;  // read to evict; allocated by the first op that is timed
};

}  // namespace plimsoll
