// Copies between the device and memory of the host that is not pinned: the disk's arena. cudaMemcpyAsync would make the
// caller wait for them, until the disk has answered too.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll::cuda {

/// In pieces, through two pinned buffers in turns. The host's side of them is done by functions on a stream of its own,
/// while the piece before crosses.
class PagedCopies {
 public:
  /// `stream`: what the device's side of the copies is put on. `piece`: bytes of each buffer; they are taken with the
  /// first copy.
  PagedCopies(cudaStream_t stream, int64_t piece) : stream_(stream), piece_(piece) {}
  ~PagedCopies();
  PagedCopies(const PagedCopies&) = delete;
  PagedCopies& operator=(const PagedCopies&) = delete;

  /// After what is on the stream so far and before what is put there from now on. The host must leave its memory alone
  /// until then. Throws UserError (failure) where CUDA fails.
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
  cudaEvent_t turn_ = nullptr;  // where one stream goes on after the other
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;
};

}  // namespace plimsoll::cuda
