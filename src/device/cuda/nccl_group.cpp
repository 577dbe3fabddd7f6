// Implements DeviceGroup by c10d's process group on NCCL. It has a file of its own because libtorch's headers of that
// group need those of NCCL, cuBLAS, cuSPARSE and cuSOLVER.
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Logging.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include "collectives/device_exchange.h"
#include "collectives/nccl_memory.h"
#include "ops/torch_version.h"

// The group's NCCL options must have the layout that libtorch was compiled with (cmake/Cuda.cmake).
static_assert(NCCL_MAJOR == 2 && NCCL_MINOR == plimsoll::kNcclMinor,
              "libtorch is compiled with another version of NCCL");

namespace plimsoll {
namespace {

using c10d::ProcessGroupNCCL;

// Timeout of the group itself: the watch of the store finds ranks that fail.
constexpr auto kForever = std::chrono::hours(24 * 365);

void require(cudaError_t error, const char* what) {
  TORCH_CHECK(error == cudaSuccess, what, ": ", cudaGetErrorString(error));
}

/// Configures c10d's thread that watches a group; by default it ends the process and prints traces.
void quiet_watchdog() {
  for (const char* name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_BLOCKING_WAIT",
        "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_PROPAGATE_ERROR",
        "TORCH_NCCL_DESYNC_DEBUG", "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "TORCH_NCCL_RETHROW_CUDA_ERRORS",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_USE_COMM_NONBLOCKING"})
    ::setenv(name, "0", /*overwrite=*/1);
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, static_cast<int>(c10::GLOG_FATAL));
}

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const StorePointer& store, const DeviceGroupOptions& options)
      : size_(options.size), device_(c10::cuda::current_device()) {
    quiet_watchdog();
    const StorePointer own = store->clone();
    own->setTimeout(options.patience);
    const auto settings = ProcessGroupNCCL::Options::create();
    settings->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(kForever);
    settings->config.maxCTAs = kNcclChannels;
    group_ = c10::make_intrusive<ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("nccl", own), options.rank,
                                                   options.size, settings);
    require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
  }

  ~NcclGroup() override {
    cudaEventDestroy(event_);
    try {
      if (!aborted_) group_->shutdown();
      group_.reset();
    } catch (const std::exception&) {  // the connections are gone
    }
  }

  void connect() override {
    const c10::cuda::CUDAGuard guard(device_);
    const at::Tensor whole = at::zeros({size_}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA, device_));
    all_gather(whole, whole.narrow(0, group_->getRank(), 1));
    require(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()), "connecting the devices");
  }

  void send_and_receive(const std::vector<at::Tensor>& outgoing, const std::vector<at::Tensor>& incoming) override {
    std::vector<at::Tensor> to = incoming, from = outgoing;
    enqueue(group_->alltoall(to, from));
  }

  void all_gather(const at::Tensor& whole, const at::Tensor& own) override {
    at::Tensor to = whole, from = own;
    enqueue(group_->_allgather_base(to, from));
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    enqueue(group_->broadcast(tensors, options));
  }

  void mark() override { require(cudaEventRecord(event_, c10::cuda::getCurrentCUDAStream()), "recording an event"); }

  bool reached_mark() override {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();
    } else {
      require(error, "exchanging tensors between devices");
    }
    if (current_) {
      current_->isCompleted();  // asks NCCL if a connection has failed
      if (const std::exception_ptr failure = current_->exception()) std::rethrow_exception(failure);
    }
    return error == cudaSuccess;
  }

  void abort() noexcept override {
    aborted_ = true;
    try {
      group_->abort();
    } catch (const std::exception&) {  // the connections are gone
    }
  }

 private:
  /// Makes the current stream wait for the work, which runs on a stream of the group.
  void enqueue(const c10::intrusive_ptr<c10d::Work>& work) {
    if (!work) return;
    work->wait();
    current_ = work;
  }

  const int size_;
  const c10::DeviceIndex device_;
  c10::intrusive_ptr<ProcessGroupNCCL> group_;
  c10::intrusive_ptr<c10d::Work> current_;  // the last exchange
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> aborted_{false};
};

const bool registered = [] {
  set_device_group_factory("cuda", [](const StorePointer& store, const DeviceGroupOptions& options) {
    return std::make_shared<NcclGroup>(store, options);
  });
  return true;
}();

}  // namespace
}  // namespace plimsoll
