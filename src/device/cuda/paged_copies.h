// Declares copies between the device and host memory that is not pinned: the disk's arena. cudaMemcpyAsync would block
// the caller until they are done, which includes the time of the disk.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll::cuda {

/// A copier in pieces, through two alternating pinned buffers. Host functions on a stream of its own copy on the host
/// side, while the previous piece crosses the link.
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

}  // namespace plimsoll::cuda
