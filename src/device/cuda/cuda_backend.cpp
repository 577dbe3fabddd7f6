// Implements the backend for NVIDIA's devices: one stream for the ops, arenas of mapped memory, copies on streams of
// their own, graphs of ops.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zero.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "device/backend.h"
#include "device/cuda/cuda_allocator.h"
#include "device/cuda/cuda_arena.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/cuda_copies.h"
#include "device/kernel_scratch.h"
#include "device/relocation.h"
#include "ops/workspace/scratch_row.h"
#include "plimsoll/error.h"
#include "trace/merged_ops.h"

namespace plimsoll::cuda {
namespace {

/// Bytes of the device that all graphs of a process use.
using GraphBytes = std::shared_ptr<std::atomic<int64_t>>;

class Graph final : public CapturedOps {
 public:
  /// `bytes`: memory of the device that the driver keeps for the graph, a part of `all`.
  Graph(cudaStream_t stream, cudaGraph_t graph, cudaGraphExec_t ready, int64_t bytes, GraphBytes all)
      : stream_(stream), graph_(graph), ready_(ready), bytes_(bytes), all_(std::move(all)) {
    *all_ += bytes_;
  }
  ~Graph() override {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(ready_);
    cudaGraphDestroy(graph_);
    *all_ -= bytes_;
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() override { require(cudaGraphLaunch(ready_, stream_), "running a graph of ops"); }

 private:
  const cudaStream_t stream_;
  const cudaGraph_t graph_;
  const cudaGraphExec_t ready_;
  const int64_t bytes_;
  const GraphBytes all_;
};

/// Returns the message of the exception that is being handled.
std::string what_is_thrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of no known kind";
  }
}

class CudaSideLine final : public SideLine {
 public:
  explicit CudaSideLine(const c10::cuda::CUDAStream& before)
      : before_(before), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, before.device_index())) {}
  ~CudaSideLine() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  CudaSideLine(const CudaSideLine&) = delete;
  CudaSideLine& operator=(const CudaSideLine&) = delete;

  void follow() override {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    if (const cudaError_t error = cudaEventRecord(event, before_); error != cudaSuccess) {
      cudaEventDestroy(event);
      require(error, "marking where ops are");
    }
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }

  void run(AllocationFrame& frame, const std::function<void()>& op) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    cudaEvent_t event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      check(!events_.empty(), "the side line runs more ops than follow what was run");
      event = events_.front();
      events_.pop_front();
    }
    const cudaError_t error = cudaStreamWaitEvent(stream_, event);
    cudaEventDestroy(event);  // takes effect after it was reached
    require(error, "waiting for ops before an exchange");
    allocator::begin_op(frame);
    try {
      op();
    } catch (...) {
      allocator::end_op();
      throw;
    }
    allocator::end_op();
  }

 private:
  const c10::cuda::CUDAStream before_, stream_;
  std::mutex mutex_;
  std::deque<cudaEvent_t> events_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)), staging_(stream_) {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, device), "asking what the device is");
    name_ = properties.name;
    multiprocessors_ = properties.multiProcessorCount;
    flash_attention_ = properties.major >= 8;
    take_library_workspaces();
  }

  std::string name() const override { return name_; }
  c10::Device device() const override { return {c10::kCUDA, static_cast<c10::DeviceIndex>(device_)}; }
  c10::DispatchKeySet keys() const override { return c10::DispatchKeySet(c10::DispatchKey::CUDA); }

  std::unique_ptr<Arena> allocate_arena(int64_t bytes, int64_t max_bytes) override {
    return std::make_unique<CudaArena>(device_, stream_, bytes, max_bytes);
  }
  std::unique_ptr<Arena> allocate_host_arena(int64_t bytes, int64_t max_bytes) override {
    return std::make_unique<PinnedArena>(bytes, max_bytes);
  }
  Place place(Arena& arena, int64_t offset, int64_t bytes) const override {
    return {c10::Storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                         c10::DataPtr(arena.data() + offset, device()), /*allocator=*/nullptr, /*resizable=*/false)};
  }

  void begin_op(AllocationFrame& frame) override {
    take_library_workspaces();
    callers_stream_ = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_));
    c10::cuda::setCurrentCUDAStream(stream_);
    allocator::begin_op(frame);
  }
  int64_t end_op() override {
    allocator::end_op();
    c10::cuda::setCurrentCUDAStream(*callers_stream_);
    return 0;
  }
  int64_t scratch_alignment() const override { return ops::kCudaScratchAlignment; }
  WorkspaceModel workspace_model(int threads) const override {
    return cuda_workspace_model(multiprocessors_, flash_attention_);
  }
  std::optional<int64_t> available_bytes() const override {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return static_cast<int64_t>(free);
  }
  bool shares_host_memory() const override { return false; }
  int64_t out_of_arena_peak() const override { return allocator::out_of_arena_peak() - library_bytes_ + *graph_bytes_; }
  void reset_out_of_arena_peak() override { allocator::reset_out_of_arena_peak(); }
  int64_t out_of_arena_allocations() const override { return allocator::device_allocations(); }

  at::Generator generator() const override { return at::globalContext().defaultGenerator(device()); }

  void prepare(const Plan& plan) override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    for (const Op& op : plan.trace.ops)
      if (is_fused(op) && !op.on_host) prepare_fused(op);
  }

  std::unique_ptr<CopyEngine> copy_engine() override { return std::make_unique<CudaCopies>(stream_); }
  std::unique_ptr<SideLine> side_line() override { return std::make_unique<CudaSideLine>(stream_); }
  void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) override {
    staging_.write(arena.data() + offset, static_cast<const std::byte*>(source), bytes);
  }
  void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) override {
    staging_.read(static_cast<std::byte*>(target), arena.data() + offset, bytes);
  }
  void zero(Arena& arena) override {
    require(cudaMemsetAsync(arena.data(), 0, static_cast<size_t>(arena.bytes()), stream_), "clearing the arena");
  }

  void relocate(std::vector<Relocation> relocations) override {
    relocate_by_copies(
        std::move(relocations),
        [&](void* to, const std::byte* from, int64_t bytes) {
          staging_.read(static_cast<std::byte*>(to), from, bytes);
        },
        [&](std::byte* to, const void* from, int64_t bytes) {
          staging_.write(to, static_cast<const std::byte*>(from), bytes);
        });
    synchronize();  // the host's arena may be among the targets
  }
  int64_t relocation_scratch_bytes(int64_t bytes) const override { return bytes; }
  void synchronize() override { require(cudaStreamSynchronize(stream_), "a kernel failed"); }
  void synchronize_device() override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    require(cudaDeviceSynchronize(), "a kernel failed");
  }

  bool captures() const override { return true; }
  std::unique_ptr<CapturedOps> capture(const std::function<void()>& ops) override {
    take_library_workspaces();  // not within the capture, which does not allow allocations
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const int64_t before = allocator::device_allocations();
    // Thread-local: calls of other threads, such as a copy of the next batch, must not affect the capture.
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "taking ops down as a graph");
    cudaGraph_t graph = nullptr;
    try {
      ops();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      capture_refusal_ = what_is_thrown();
      return nullptr;  // an op cannot be captured: the ops run one by one
    }
    cudaGraphExec_t ready = nullptr;
    cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    const std::optional<int64_t> free_before = available_bytes();
    if (error == cudaSuccess && allocator::device_allocations() != before) error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&ready, graph, 0);
    // The driver keeps memory on the device for the graph, outside everything planned. Uploading allocates it now
    // instead of in the first launch.
    if (error == cudaSuccess) error = cudaGraphUpload(ready, stream_);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
    if (error != cudaSuccess || graph == nullptr) {
      if (ready) cudaGraphExecDestroy(ready);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      capture_refusal_ = cudaGetErrorString(error);
      return nullptr;
    }
    const std::optional<int64_t> free_now = available_bytes();
    const int64_t bytes = free_before && free_now ? std::max<int64_t>(0, *free_before - *free_now) : 0;
    return std::make_unique<Graph>(stream_, graph, ready, bytes, graph_bytes_);
  }
  std::string capture_refusal() const override { return capture_refusal_; }

 private:
  // cuBLAS and cuBLASLt allocate their workspaces in a thread's first matmuls and keep them. This is done before an op,
  // not within it.
  void take_library_workspaces() {
    thread_local bool taken = false;
    if (taken) return;
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const at::NoGradGuard no_grad;
    const int64_t before = allocator::out_of_arena_now();
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto options = at::TensorOptions().dtype(type).device(device());
      const at::Tensor a = at::empty({64, 64}, options).zero_(), bias = at::empty({64}, options).zero_();
      at::mm(a, a);
      at::addmm(bias, a, a);  // a matmul with bias uses cuBLASLt
    }
    synchronize();
    // The plan has these bytes once: workspaces of further threads are out of the arena, and are counted as such.
    int64_t none = 0;
    library_bytes_.compare_exchange_strong(none, allocator::out_of_arena_now() - before);
    taken = true;
  }

  const int device_;
  const c10::cuda::CUDAStream stream_;
  Staging staging_;
  std::string name_;
  std::optional<c10::cuda::CUDAStream> callers_stream_;  // set while an op runs
  std::atomic<int64_t> library_bytes_ = 0;
  const GraphBytes graph_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
  std::string capture_refusal_;
  int multiprocessors_ = 0;
  bool flash_attention_ = true;
};

}  // namespace

}  // namespace plimsoll::cuda

extern "C" __attribute__((visibility("default"))) plimsoll::Backend* plimsoll_open_backend(std::string& missing) {
  try {
    // libtorch's message for an old driver also recommends another version of torch, with which this library cannot be
    // loaded.
    int version = 0;
    if (::cudaDriverGetVersion(&version) == cudaSuccess && version > 0 && version < CUDART_VERSION / 1000 * 1000) {
      missing = fmt::format("the NVIDIA driver is for CUDA {}.{}; a driver for CUDA {} is needed (580 or later)",
                            version / 1000, version % 1000 / 10, CUDART_VERSION / 1000);
      return nullptr;
    }
    c10::cuda::device_count_ensure_non_zero();  // throws with the reason if there is none
    plimsoll::cuda::allocator::install();
    if (!at::Context::hasCUDA()) {
      missing = "libtorch was asked for its devices before its CUDA library was loaded: ask for the device first";
      return nullptr;
    }
    at::globalContext().lazyInitDevice(c10::kCUDA);
    // The same step gives the same bits, and float32 is not replaced by TF32.
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setAllowTF32CuDNN(false);
    static auto* backend = new plimsoll::cuda::CudaBackend(0);  // never destroyed: arenas of static lifetime may
                                                                // outlive a static object
    return backend;
  } catch (const c10::Error& error) {
    missing = error.what_without_backtrace();
  } catch (const plimsoll::UserError& error) {
    missing = error.what();
  }
  return nullptr;
}
