// Declares host memory that a device copies from and to by itself while ops run.
#pragma once

#include "device/cpu_arena.h"

namespace plimsoll::cuda {

/// A CPU arena whose pages are locked for the device.
class PinnedArena final : public Arena {
 public:
  /// Throws MemoryUnavailable if the machine does not have `bytes`, or if it refuses to lock them.
  explicit PinnedArena(int64_t bytes, int64_t max_bytes = 0);
  ~PinnedArena() override;
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* data() const override { return arena_.data(); }
  int64_t bytes() const override { return arena_.bytes(); }
  void grow(int64_t bytes) override;
  int64_t touched_bytes() const override { return arena_.touched_bytes(); }

 private:
  void lock_pages();
  void unlock_pages() noexcept;

  CpuArena arena_;
  int64_t locked_ = 0;
};

}  // namespace plimsoll::cuda
