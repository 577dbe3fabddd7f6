// The arena on the CPU: one range of addresses, taken at start.
#pragma once

#include "device/arena.h"

namespace plimsoll {

/// Memory at a fixed address, with an inaccessible page behind it: a write past the end stops the program
/// instead of spoiling somebody's data. Growing keeps the address and the contents.
class CpuArena final : public Arena {
 public:
  /// Throws MemoryUnavailable if the machine does not give `bytes`.
  /// `most`: it may have to grow to so much.
  explicit CpuArena(int64_t bytes, int64_t most = 0);
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

}  // namespace plimsoll
