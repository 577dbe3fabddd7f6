#include "device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "device/cuda/cuda_check.h"

namespace plimsoll::cuda {

Staging::Staging(cudaStream_t stream, int64_t bytes) : stream_(stream), bytes_(bytes) {
  for (Buffer& buffer : buffers_) {
    void* memory = nullptr;
    require(cudaMallocHost(&memory, static_cast<size_t>(bytes)), "taking pinned host memory for inputs");
    buffer.data = static_cast<std::byte*>(memory);
    require(cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming), "making an event");
  }
}

Staging::~Staging() {
  cudaStreamSynchronize(stream_);
  for (const Buffer& buffer : buffers_) {
    cudaEventDestroy(buffer.free);
    cudaFreeHost(buffer.data);
  }
}

void Staging::write(std::byte* target, const std::byte* source, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    Buffer& buffer = buffers_[next_];
    next_ = (next_ + 1) % buffers_.size();
    const int64_t piece = std::min(bytes - done, bytes_);
    require(cudaEventSynchronize(buffer.free), "waiting for an input's copy");
    std::memcpy(buffer.data, source + done, static_cast<size_t>(piece));
    require(cudaMemcpyAsync(target + done, buffer.data, static_cast<size_t>(piece), cudaMemcpyDefault, stream_),
            "copying an input to the device");
    require(cudaEventRecord(buffer.free, stream_), "marking the end of a copy");
    done += piece;
  }
}

void Staging::read(std::byte* target, const std::byte* source, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    Buffer& buffer = buffers_[next_];
    const int64_t piece = std::min(bytes - done, bytes_);
    require(cudaEventSynchronize(buffer.free), "waiting for an input's copy");
    require(cudaMemcpyAsync(buffer.data, source + done, static_cast<size_t>(piece), cudaMemcpyDefault, stream_),
            "copying a result from the device");
    require(cudaStreamSynchronize(stream_), "waiting for a result");
    std::memcpy(target + done, buffer.data, static_cast<size_t>(piece));
    done += piece;
  }
}

}  // namespace plimsoll::cuda
