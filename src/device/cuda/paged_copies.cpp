#include "device/cuda/paged_copies.h"

#include <algorithm>
#include <cstring>

#include "device/cuda/cuda_check.h"
#include "device/cuda/host_call.h"

namespace plimsoll::cuda {
namespace {

// Makes later work on `after` wait for the work on `before`.
void order(cudaStream_t before, cudaEvent_t event, cudaStream_t after) {
  require(cudaEventRecord(event, before), "ordering the pieces of a copy");
  require(cudaStreamWaitEvent(after, event, 0), "ordering the pieces of a copy");
}

}  // namespace

PagedCopies::~PagedCopies() {
  if (!host_) return;
  cudaStreamSynchronize(host_);
  cudaStreamSynchronize(stream_);
  for (const Buffer& buffer : buffers_) {
    if (buffer.full) cudaEventDestroy(buffer.full);
    if (buffer.free) cudaEventDestroy(buffer.free);
    if (buffer.data) cudaFreeHost(buffer.data);
  }
  if (turn_) cudaEventDestroy(turn_);
  cudaStreamDestroy(host_);
}

void PagedCopies::take_buffers() {
  if (!host_) require(cudaStreamCreateWithFlags(&host_, cudaStreamNonBlocking), "making a stream for copies");
  if (!turn_) require(cudaEventCreateWithFlags(&turn_, cudaEventDisableTiming), "making an event");
  for (Buffer& buffer : buffers_) {
    if (!buffer.full) require(cudaEventCreateWithFlags(&buffer.full, cudaEventDisableTiming), "making an event");
    if (!buffer.free) require(cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming), "making an event");
    if (buffer.data) continue;
    void* memory = nullptr;
    require(cudaMallocHost(&memory, static_cast<size_t>(piece_)), "taking pinned host memory for copies to the disk");
    buffer.data = static_cast<std::byte*>(memory);
  }
}

PagedCopies::Buffer& PagedCopies::next() {
  next_ = (next_ + 1) % buffers_.size();
  return buffers_[next_];
}

void PagedCopies::to_device(std::byte* target, const std::byte* source, int64_t bytes) {
  take_buffers();
  order(stream_, turn_, host_);
  for (int64_t done = 0; done < bytes; done += piece_) {
    Buffer& buffer = next();
    const auto piece = static_cast<size_t>(std::min(bytes - done, piece_));
    // An event that was never recorded does not block: the buffer is free.
    require(cudaStreamWaitEvent(host_, buffer.free, 0), "waiting for a copy's buffer");
    call_on(host_, [to = buffer.data, from = source + done, piece] { std::memcpy(to, from, piece); });
    order(host_, buffer.full, stream_);
    require(cudaMemcpyAsync(target + done, buffer.data, piece, cudaMemcpyDefault, stream_), "copying from the disk");
    require(cudaEventRecord(buffer.free, stream_), "marking the end of a piece");
  }
}

void PagedCopies::from_device(std::byte* target, const std::byte* source, int64_t bytes) {
  take_buffers();
  for (int64_t done = 0; done < bytes; done += piece_) {
    Buffer& buffer = next();
    const auto piece = static_cast<size_t>(std::min(bytes - done, piece_));
    require(cudaStreamWaitEvent(stream_, buffer.free, 0), "waiting for a copy's buffer");
    require(cudaMemcpyAsync(buffer.data, source + done, piece, cudaMemcpyDefault, stream_), "copying to the disk");
    order(stream_, buffer.full, host_);
    call_on(host_, [to = target + done, from = buffer.data, piece] { std::memcpy(to, from, piece); });
    require(cudaEventRecord(buffer.free, host_), "marking the end of a piece");
  }
  order(host_, turn_, stream_);
}

}  // namespace plimsoll::cuda
