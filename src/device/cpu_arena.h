// The arena on the CPU: one range of addresses, taken at start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// Zero-filled memory at a fixed address, with an inaccessible page behind it: a write past the end stops the program
/// instead of spoiling somebody's data. Growing keeps the address and the contents.
class CpuArena {
 public:
  /// Throws UserError(failure) if the machine does not give `bytes`.
  explicit CpuArena(int64_t bytes);
  ~CpuArena();
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  /// Makes the arena at least `bytes` large.
  void grow(int64_t bytes);

  /// Bytes of the arena that the operating system holds in memory at present, in whole pages.
  int64_t resident_bytes() const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t reserved_ = 0;
};

}  // namespace plimsoll
