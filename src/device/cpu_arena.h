// Declares the arena on the CPU: one range of addresses, allocated at the start.
#pragma once

#include "device/arena.h"

namespace plimsoll {

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

}  // namespace plimsoll
