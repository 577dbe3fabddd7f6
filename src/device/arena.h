// One range of a device's memory that tensors are placed in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// Memory taken at the start of a run. Growing keeps the contents and, where the arena has addresses, these.
class Arena {
 public:
  virtual ~Arena() = default;

  /// Its first byte, for those who may do arithmetic with it: a device's kernels, and the host where that can reach it.
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;

  /// Makes the arena at least `bytes` large. Throws MemoryUnavailable if the device does not give them.
  virtual void grow(int64_t bytes) = 0;

  /// The highest byte that anybody has written to, plus one: a fresh arena is a pattern that reads as NaN in every
  /// floating type. Whoever reads what was never written makes himself felt.
  virtual int64_t touched_bytes() const = 0;
};

}  // namespace plimsoll
