// NVIDIA's devices: one stream for the ops, arenas of mapped memory, copies on streams of their own, graphs of ops.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zero.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include "device/backend_library.h"
#include "device/cuda/cuda_allocator.h"
#include "device/cuda/cuda_arena.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_copies.h"
#include "device/cuda/pinned_arena.h"
#include "device/cuda/staging.h"
#include "device/cuda_workspace.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {
namespace {

class Graph final : public CapturedOps {
 public:
  Graph(cudaStream_t stream, cudaGraph_t graph) : stream_(stream), graph_(graph) {
    const cudaError_t error = cudaGraphInstantiate(&ready_, graph_, 0);
    if (error != cudaSuccess) cudaGraphDestroy(graph_);
    require(error, "making a graph of ops");
  }
  ~Graph() override {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(ready_);
    cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() override { require(cudaGraphLaunch(ready_, stream_), "running a graph of ops"); }

 private:
  const cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t ready_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)), staging_(stream_) {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, device), "asking what the device is");
    name_ = properties.name;
    take_library_workspaces();
  }

  std::string name() const override { return name_; }
  c10::Device device() const override { return {c10::kCUDA, static_cast<c10::DeviceIndex>(device_)}; }
  c10::DispatchKeySet keys() const override { return c10::DispatchKeySet(c10::DispatchKey::CUDA); }

  std::unique_ptr<Arena> take_arena(int64_t bytes, int64_t most) override {
    return std::make_unique<CudaArena>(device_, stream_, bytes, most);
  }
  std::unique_ptr<Arena> take_host_arena(int64_t bytes, int64_t most) override {
    return std::make_unique<PinnedArena>(bytes, most);
  }
  Place place(Arena& arena, int64_t offset, int64_t bytes) const override {
    return {c10::Storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                         c10::DataPtr(arena.data() + offset, device()), /*allocator=*/nullptr, /*resizable=*/false)};
  }

  void begin_op(AllocationFrame& frame) override {
    if (c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)) != stream_)
      c10::cuda::setCurrentCUDAStream(stream_);  // each thread has a stream of its own in mind
    allocator::begin_op(frame);
  }
  int64_t end_op() override {
    allocator::end_op();
    return 0;
  }
  int64_t scratch_alignment() const override { return 256; }  // as cudaMalloc's, which kernels count on
  WorkspaceModel workspace_model(int threads) const override { return cuda_workspace_model(); }
  std::optional<int64_t> available_bytes() const override {
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return static_cast<int64_t>(free);
  }
  bool shares_host_memory() const override { return false; }
  int64_t outside_peak() const override { return allocator::outside_peak() - library_bytes_; }
  void reset_outside_peak() override { allocator::reset_outside_peak(); }
  int64_t outside_allocations() const override { return allocator::device_allocations(); }

  at::Generator generator() const override { return at::globalContext().defaultGenerator(device()); }

  std::unique_ptr<CopyEngine> copy_engine() override { return std::make_unique<CudaCopies>(stream_); }
  void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) override {
    staging_.write(arena.data() + offset, static_cast<const std::byte*>(source), bytes);
  }
  void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) override {
    staging_.read(static_cast<std::byte*>(target), arena.data() + offset, bytes);
  }
  void zero(Arena& arena) override {
    require(cudaMemsetAsync(arena.data(), 0, static_cast<size_t>(arena.bytes()), stream_), "clearing the arena");
  }

  // By way of the host: what moves is small beside the arenas, and the device has no room beside them.
  void move_all(std::vector<ByteMove> moves) override {
    synchronize();
    std::vector<std::vector<std::byte>> taken;
    taken.reserve(moves.size());
    for (const ByteMove& move : moves) {
      taken.emplace_back(static_cast<size_t>(move.bytes));
      require(cudaMemcpy(taken.back().data(), move.from, taken.back().size(), cudaMemcpyDefault),
              "moving what is kept");
    }
    for (size_t m = 0; m < moves.size(); ++m)
      require(cudaMemcpy(moves[m].to, taken[m].data(), taken[m].size(), cudaMemcpyDefault), "moving what is kept");
  }
  void synchronize() override { require(cudaStreamSynchronize(stream_), "a kernel failed"); }

  bool captures() const override { return true; }
  std::unique_ptr<CapturedOps> capture(const std::function<void()>& ops) override {
    c10::cuda::setCurrentCUDAStream(stream_);
    const int64_t before = allocator::device_allocations();
    // Thread-local: other threads' calls (a copy of the next batch) are none of the capture's business.
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "taking ops down as a graph");
    cudaGraph_t graph = nullptr;
    try {
      ops();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      return nullptr;  // an op that cannot be taken down: they run one by one
    }
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (error != cudaSuccess || graph == nullptr || allocator::device_allocations() != before) {
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      return nullptr;
    }
    return std::make_unique<Graph>(stream_, graph);
  }

 private:
  // cuBLAS takes its workspace with a handle's first product and keeps it: now, not in a step.
  void take_library_workspaces() {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const at::NoGradGuard no_grad;
    const int64_t before = allocator::outside_now();
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor a = at::empty({16, 16}, at::TensorOptions().dtype(type).device(device())).zero_();
      at::mm(a, a);
    }
    synchronize();
    library_bytes_ = allocator::outside_now() - before;
  }

  const int device_;
  const c10::cuda::CUDAStream stream_;
  Staging staging_;
  std::string name_;
  int64_t library_bytes_ = 0;
};

}  // namespace

}  // namespace plimsoll::cuda

extern "C" __attribute__((visibility("default"))) plimsoll::Backend* plimsoll_open_backend(std::string& missing) {
  try {
    if (c10::cuda::device_count() < 1) {
      missing = "the driver shows no device to this program";
      return nullptr;
    }
    plimsoll::cuda::allocator::install();
    at::globalContext().lazyInitDevice(c10::kCUDA);
    static auto* backend = new plimsoll::cuda::CudaBackend(0);  // arenas of static lifetime may outlive a static object
    return backend;
  } catch (const c10::Error& error) {
    missing = error.what_without_backtrace();
  } catch (const plimsoll::UserError& error) {
    missing = error.what();
  }
  return nullptr;
}
