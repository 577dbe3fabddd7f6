#include "device/cuda/cuda_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "device/cuda/cuda_calls.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::CUDAStream;
using namespace c10::cuda::CUDACachingAllocator;

thread_local AllocationFrame* current_frame = nullptr;
std::atomic<int64_t> live{0}, peak{0}, allocations{0};

[[noreturn]] void not_here(const char* what) {
  throw UserError(fmt::format("{} is not offered by Plimsoll's allocator", what), UserError::Kind::failure);
}

// An allocator of planned memory. The rest of libtorch's interface for CUDA allocators concerns caches and pools, which
// do not exist here.
class PlannedAllocator final : public CUDAAllocator {
 public:
  static PlannedAllocator& get() {
    static auto* allocator = new PlannedAllocator;  // never destroyed: kernels may free during static destruction
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(c10::kCUDA, c10::cuda::current_device());
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    if (AllocationFrame* const frame = current_frame) {
      if (void* const place = frame->place_for(bytes)) return {place, place, &release, device};
      void* const address = take(bytes);
      frame->add_out_of_arena(address, bytes);
      return {address, address, &release, device};
    }
    void* const address = take(bytes);
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    require(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, c10::cuda::getCurrentCUDAStream()),
            "copying on the device");
  }

  void* raw_alloc(size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (AllocationFrame* const frame = current_frame) {
      if (void* const place = frame->place_for(bytes)) return place;
      void* const address = take(bytes);
      frame->add_out_of_arena(address, bytes);
      return address;
    }
    return take(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override { return raw_alloc(bytes); }
  void raw_delete(void* address) override { release(address); }

  void init(int device_count) override { initialized_ = true; }
  bool initialized() override { return initialized_; }
  double getMemoryFraction(c10::DeviceIndex device) override { return 1; }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override { not_here("a fraction of the memory"); }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override { return {}; }
  void enable(bool value) override {}
  bool isEnabled() const override { return true; }
  void emptyCache(c10::MempoolId_t pool) override {}
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override { *largest = 0; }
  void* getBaseAllocation(void* address, size_t* size) override { not_here("getBaseAllocation"); }
  void recordStream(const c10::DataPtr& data, CUDAStream stream) override {}

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    DeviceStats stats;
    stats.allocated_bytes[0].current = stats.reserved_bytes[0].current = live;
    stats.allocated_bytes[0].peak = stats.reserved_bytes[0].peak = peak;
    stats.num_device_alloc = allocations;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {}
  void resetPeakStats(c10::DeviceIndex device) override { peak = live.load(); }
  SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override { return {}; }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {}
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {}
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {}
  ShareableHandle shareIpcHandle(void* address) override { not_here("sharing memory between processes"); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override { not_here("sharing memory between processes"); }
  bool isHistoryEnabled() override { return false; }
  void recordHistory(bool enabled, CreateContextFn context, size_t most, RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {}
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {}
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {}
  // Not marked `override`: libtorch 2.11 has no such function.
  void attachOomRejectionObserver(std::function<void(int64_t, size_t, size_t, size_t)> observer) {}
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override { not_here("peer access"); }
  cudaError_t memcpyAsync(void* target, int target_device, const void* source, int source_device, size_t bytes,
                          cudaStream_t stream, bool peer) override {
    return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    not_here("a state of the allocator");
  }
  CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device, std::shared_ptr<AllocatorState> state) override {
    not_here("a state of the allocator");
  }
  std::string name() override { return "plimsoll"; }

 private:
  static void* take(size_t bytes) {
    void* address = nullptr;
    if (const cudaError_t error = cudaMalloc(&address, bytes); error != cudaSuccess) {
      cudaGetLastError();
      // libtorch's own exception type: if there are several kernels, cuDNN's wrapper then tries one that needs less
      // memory.
      TORCH_CHECK_WITH(OutOfMemoryError, error != cudaErrorMemoryAllocation, "the device has no ",
                       format_bytes(static_cast<int64_t>(bytes)), " left for what a kernel takes beside its plan");
      require(error, "taking device memory");
    }
    PlannedAllocator& self = get();
    {
      const std::lock_guard lock(self.mutex_);
      self.blocks_[address] = bytes;
    }
    ++allocations;
    const int64_t now = live += static_cast<int64_t>(bytes);
    int64_t most = peak;
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
    return address;
  }

  static void release(void* address) {
    if (address == nullptr) return;
    if (current_frame) current_frame->release(address);
    PlannedAllocator& self = get();
    size_t bytes = 0;
    {
      const std::lock_guard lock(self.mutex_);
      const auto found = self.blocks_.find(address);
      if (found == self.blocks_.end()) return;  // memory of an arena, which the frame only lent
      bytes = found->second;
      self.blocks_.erase(found);
    }
    live -= static_cast<int64_t>(bytes);
    cudaFree(address);  // waits for the kernels that still read it
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> blocks_;  // from cudaMalloc
  std::atomic<bool> initialized_{false};
};

}  // namespace

void allocator::install() {
  CUDAAllocator* const ours = &PlannedAllocator::get();
  if (c10::cuda::CUDACachingAllocator::allocator.load() == ours) return;
  c10::cuda::CUDACachingAllocator::allocator.store(ours);
  c10::SetAllocator(c10::kCUDA, ours, /*priority=*/200);
  ours->init(c10::cuda::device_count());
}

void allocator::begin_op(AllocationFrame& frame) {
  check(current_frame == nullptr, "two ops run on one thread at once");
  current_frame = &frame;
}
void allocator::end_op() {
  current_frame = nullptr;
}

int64_t allocator::out_of_arena_now() {
  return live;
}
int64_t allocator::out_of_arena_peak() {
  return peak;
}
void allocator::reset_out_of_arena_peak() {
  peak = live.load();
}
int64_t allocator::device_allocations() {
  return allocations;
}

}  // namespace plimsoll::cuda
