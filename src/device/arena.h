// Declares Arena, one range of a device's memory that tensors are placed in, the arena on the CPU, and sizes in
// pages of memory.
#pragma once

#include <unistd.h>

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

/// An arena at a fixed address, with an inaccessible page behind it. A write past the end stops the program instead of
/// overwriting other data. Growing keeps the address and the contents.
class CpuArena final : public Arena {
 public:
  /// Throws MemoryUnavailable if the machine does not have `bytes`. `max_bytes`: bytes that the arena may have to grow
  /// to.
  explicit CpuArena(int64_t bytes, int64_t max_bytes = 0);
  ~CpuArena() override;
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

  void grow(int64_t bytes) override;
  int64_t touched_bytes() const override;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t reserved_ = 0;
};

/// Returns the bytes of a page of memory.
inline int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

/// Returns `bytes`, rounded up to whole pages.
inline int64_t whole_pages(int64_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

}  // namespace plimsoll
