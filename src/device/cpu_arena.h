// The arena on the CPU: one range of addresses, taken at start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// Memory at a fixed address, with an inaccessible page behind it: a write past the end stops the program
/// instead of spoiling somebody's data. Growing keeps the address and the contents.
class CpuArena {
 public:
  /// Throws MemoryUnavailable if the machine does not give `bytes`.
  /// `most`: it may have to grow to so much.
  explicit CpuArena(int64_t bytes, int64_t most = 0);
  ~CpuArena();
  CpuArena(const CpuArena&) = delete;
  CpuArena& operator=(const CpuArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  /// Makes the arena at least `bytes` large. Throws MemoryUnavailable likewise.
  void grow(int64_t bytes);

  /// The highest byte that anybody has written to, plus one: the arena starts as a pattern that reads as NaN in every
  /// floating type. Whoever reads what was never written makes himself felt.
  int64_t touched_bytes() const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t reserved_ = 0;
};

}  // namespace plimsoll
