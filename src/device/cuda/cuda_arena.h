// Declares the arena on an NVIDIA device: one range of addresses with memory mapped behind it (CUDA's virtual memory
// management, CUDA C++ Programming Guide, "Virtual Memory Management").
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

}  // namespace plimsoll::cuda
