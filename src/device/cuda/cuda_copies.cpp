#include "device/cuda/cuda_copies.h"

#include <utility>

#include "device/cuda/cuda_check.h"
#include "device/cuda/host_call.h"

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

}  // namespace plimsoll::cuda
