// Declares two alternating pinned buffers of the host. A tensor of the program's own is copied to the device through
// one of them, while the next piece is copied into the other.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll::cuda {

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
