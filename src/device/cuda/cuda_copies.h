// Declares copies between the device and the host: on streams of their own, with host memory that is not pinned, and
// of the program's tensors through two pinned buffers.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "device/copy_engine.h"

namespace plimsoll::cuda {

/// A copier between the device and host memory that is not pinned, the disk's arena. cudaMemcpyAsync would block the
/// caller until such a copy is done, which includes the time of the disk. Bytes are copied in pieces, through two
/// alternating pinned buffers. Host functions on a stream of its own copy on the host side, while the previous piece
/// crosses the link.
class PagedCopies {
 public:
  /// `stream` gets the device's side of the copies. `piece`: bytes of each buffer; the first copy allocates the
  /// buffers.
  PagedCopies(cudaStream_t stream, int64_t piece) : stream_(stream), piece_(piece) {}
  ~PagedCopies();
  PagedCopies(const PagedCopies&) = delete;
  PagedCopies& operator=(const PagedCopies&) = delete;

  /// Copy after the work enqueued so far and before later work. The host must not use its memory until then. Throw
  /// UserError (failure) if CUDA fails.
  void to_device(std::byte* target, const std::byte* source, int64_t bytes);
  void from_device(std::byte* target, const std::byte* source, int64_t bytes);

 private:
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t full = nullptr, free = nullptr;
  };
  void take_buffers();
  Buffer& next();

  const cudaStream_t stream_;
  const int64_t piece_;
  cudaStream_t host_ = nullptr;
  cudaEvent_t turn_ = nullptr;  // orders one stream after the other
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};

/// Copies on streams of their own, one for each direction, ordered with the ops by events.
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

/// Two alternating pinned buffers of the host. A tensor of the program's own is copied to the device through one of
/// them, while the next piece is copied into the other.
class Staging {
 public:
  /// `bytes` of each buffer.
  explicit Staging(cudaStream_t stream, int64_t bytes = int64_t{8} << 20);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies to the device (or pinned host memory) after the ops so far; `source` may be reused when it returns.
  void write(std::byte* target, const std::byte* source, int64_t bytes);
  /// Copies from the device (or pinned host memory) after the ops so far, and waits for it.
  void read(std::byte* target, const std::byte* source, int64_t bytes);

 private:
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t free = nullptr;
  };
  const cudaStream_t stream_;
  const int64_t bytes_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};

}  // namespace plimsoll::cuda
