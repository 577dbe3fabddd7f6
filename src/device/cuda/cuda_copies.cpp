#include "device/cuda/cuda_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/cuda/cuda_calls.h"

namespace plimsoll::cuda {
namespace {

cudaMemoryType kind_of(const void* address) {
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, address), "asking where memory lies");
  return attributes.type;
}

}  // namespace

CudaCopies::CudaCopies(cudaStream_t compute, int64_t piece) : compute_(compute) {
  require(cudaStreamCreateWithFlags(&in_, cudaStreamNonBlocking), "making a stream for copies");
  require(cudaStreamCreateWithFlags(&out_, cudaStreamNonBlocking), "making a stream for copies");
  require(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "making an event");
  paged_in_ = std::make_unique<PagedCopies>(in_, piece);
  paged_out_ = std::make_unique<PagedCopies>(out_, piece);
}

CudaCopies::~CudaCopies() {
  paged_in_.reset();
  paged_out_.reset();
  cudaStreamSynchronize(in_);
  cudaStreamSynchronize(out_);
  for (const Copy& copy : copies_) cudaEventDestroy(copy.done);
  for (cudaEvent_t event : spare_) cudaEventDestroy(event);
  cudaEventDestroy(ready_);
  cudaStreamDestroy(in_);
  cudaStreamDestroy(out_);
}

cudaEvent_t CudaCopies::take_event() {
  if (!spare_.empty()) {
    const cudaEvent_t event = spare_.back();
    spare_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

// Recycles the events of copies that are done, because nothing waits for them any more.
void CudaCopies::forget_finished() {
  while (!copies_.empty() && cudaEventQuery(copies_.front().done) == cudaSuccess) {
    spare_.push_back(copies_.front().done);
    copies_.pop_front();
  }
  cudaGetLastError();  // clears "not ready", which is no error
}

int64_t CudaCopies::start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then,
                          std::function<void()> first) {
  forget_finished();
  const bool in = kind_of(target) == cudaMemoryTypeDevice;
  const bool paged = kind_of(in ? source : target) == cudaMemoryTypeUnregistered;
  const cudaStream_t stream = in ? in_ : out_;
  // When the ops so far are done, the source has been written and the target's memory is free.
  require(cudaEventRecord(ready_, compute_), "ordering a copy after the ops");
  require(cudaStreamWaitEvent(stream, ready_, 0), "ordering a copy after the ops");
  if (first) call_on(stream, std::move(first));
  if (!paged)
    require(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream), "copying between host and device");
  else if (in)
    paged_in_->to_device(target, source, static_cast<int64_t>(bytes));
  else
    paged_out_->from_device(target, source, static_cast<int64_t>(bytes));
  if (then) call_on(stream, std::move(then));
  const cudaEvent_t done = take_event();
  copies_.push_back({++started_, done});
  require(cudaEventRecord(done, stream), "marking the end of a copy");
  return started_;
}

void CudaCopies::wait(int64_t copy) {
  for (const Copy& pending : copies_)
    if (pending.number == copy) require(cudaStreamWaitEvent(compute_, pending.done, 0), "waiting for a copy");
}

void CudaCopies::wait_on_host(int64_t copy) {
  for (const Copy& pending : copies_)
    if (pending.number <= copy) require(cudaEventSynchronize(pending.done), "waiting for a copy");
}

void CudaCopies::wait_for_all() {
  require(cudaStreamSynchronize(in_), "waiting for copies");
  require(cudaStreamSynchronize(out_), "waiting for copies");
}

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
