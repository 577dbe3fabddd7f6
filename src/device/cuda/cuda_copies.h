// Declares copies on streams of their own, one for each direction, ordered with the ops by events.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <vector>

#include "device/copy_engine.h"
#include "device/cuda/paged_copies.h"

namespace plimsoll::cuda {

class CudaCopies final : public CopyEngine {
 public:
  /// `compute`: the stream that ops run on. `piece`: bytes of a piece in copies of memory that is not pinned.
  explicit CudaCopies(cudaStream_t compute, int64_t piece = int64_t{8} << 20);
  ~CudaCopies() override;
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                std::function<void()> first = {}) override;
  void wait(int64_t copy) override;
  void wait_on_host(int64_t copy) override;
  void wait_for_all() override;

 private:
  struct Copy {
    int64_t number;
    cudaEvent_t done;
  };
  cudaEvent_t take_event();
  void forget_finished();

  const cudaStream_t compute_;
  cudaStream_t in_ = nullptr, out_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::unique_ptr<PagedCopies> paged_in_, paged_out_;
  std::deque<Copy> copies_;  // copies that may be in flight, by number
  std::vector<cudaEvent_t> spare_;
  int64_t started_ = 0;
};

}  // namespace plimsoll::cuda
