// Declares Arena: one range of a device's memory that tensors are placed in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// A range of memory that is allocated at the start of a run. Growing keeps the contents and, if the arena has
/// addresses, these.
class Arena {
 public:
  virtual ~Arena() = default;

  /// Returns the first byte, for code that may do arithmetic with it: a device's kernels, and the host if it can reach
  /// the memory.
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;

  /// Makes the arena at least `bytes` large. Throws MemoryUnavailable if the device does not have that memory.
  virtual void grow(int64_t bytes) = 0;

  /// Returns the end of the highest byte that was ever written. A fresh arena has a pattern that reads as NaN in every
  /// floating type, so a read of memory that was never written shows in the results.
  virtual int64_t touched_bytes() const = 0;
};

}  // namespace plimsoll
