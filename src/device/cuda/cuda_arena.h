// Declares the arena on an NVIDIA device, one range of addresses with memory mapped behind it, and the arena of
// pinned host memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

#include "device/arena.h"

namespace plimsoll::cuda {

/// An arena that reserves addresses for all of the device's memory, so that growing moves nothing. Memory is mapped
/// behind the first bytes(), in pieces of the device's granularity (2 MiB).
class CudaArena final : public Arena {
 public:
  /// Throws MemoryUnavailable if the device does not have `bytes`. Throws UserError (failure) if it has no virtual
  /// memory management (before Pascal, some virtual machines).
  CudaArena(int device, cudaStream_t stream, int64_t bytes, int64_t max_bytes = 0);
  ~CudaArena() override;
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }
  void grow(int64_t bytes) override;
  int64_t touched_bytes() const override;

 private:
  void release() noexcept;

  const int device_;
  const cudaStream_t stream_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
  int64_t reserved_ = 0;
  int64_t piece_ = 0;
  struct Mapping {
    CUmemGenericAllocationHandle handle;
    int64_t offset, bytes;
  };
  std::vector<Mapping> mappings_;
};

/// A CPU arena whose pages are locked for the device, which copies from and to it by itself while ops run.
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
