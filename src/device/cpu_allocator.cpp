#include "device/cpu_allocator.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

thread_local AllocationFrame* current_frame = nullptr;
thread_local int64_t beside_at_start = 0;
std::atomic<int> running_ops{0};

// A number of bytes, and its maximum so far.
struct Counter {
  std::atomic<int64_t> live{0}, peak{0};
  void add(int64_t bytes) {
    const int64_t now = live += bytes;
    int64_t most = peak;
    while (now > most && !peak.compare_exchange_weak(most, now)) {
    }
  }
  void reset_peak() { peak = live.load(); }
};
Counter out_of_arena;  // bytes on the heap while ops run
std::atomic<int64_t> heap_requests{0};
Counter beside;  // the part of `out_of_arena` by threads that run no op themselves: a kernel's workers

// An allocator that passes requests to the previous allocator while no op runs.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& get() {
    static auto* allocator = new CountingAllocator;  // never destroyed: kernels may free during static destruction
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (running_ops == 0 || bytes == 0) return default_->allocate(bytes);
    const c10::Device cpu(c10::DeviceType::CPU);
    AllocationFrame* frame = current_frame;
    if (frame) {
      if (void* place = frame->place_for(bytes)) return {place, place, &keep, cpu};
      void* address = take_from_heap(bytes);
      frame->add_out_of_arena(address, bytes);
      return {address, address, &release, cpu};
    }
    // Another thread of the program, which trains something else or prepares data, is no worker of a kernel.
    if (!at::in_parallel_region()) return default_->allocate(bytes);
    void* address = take_from_heap(bytes, /*by_worker=*/true);
    return {address, address, &release, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

 private:
  CountingAllocator() : default_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/200); }

  void* take_from_heap(size_t bytes, bool by_worker = false) {
    void* address = default_->raw_allocate(bytes);
    ++heap_requests;
    {
      std::lock_guard lock(mutex_);
      heap_blocks_[address] = {bytes, by_worker};
    }
    out_of_arena.add(static_cast<int64_t>(bytes));
    if (by_worker) beside.add(static_cast<int64_t>(bytes));
    return address;
  }

  // Deleter of outputs and planned scratch: the arena keeps the memory, and only the frame is notified.
  static void keep(void* address) {
    if (current_frame) current_frame->release(address);
  }

  static void release(void* address) {
    // Memory of the frame comes here too, through raw_allocate and raw_deallocate.
    if (current_frame && current_frame->lent(address)) {
      current_frame->release(address);
      return;
    }
    CountingAllocator& self = get();
    HeapBlock block;
    {
      std::lock_guard lock(self.mutex_);
      if (const auto found = self.heap_blocks_.find(address); found != self.heap_blocks_.end()) {
        block = found->second;
        self.heap_blocks_.erase(found);
      }
    }
    if (block.bytes > 0) out_of_arena.add(-static_cast<int64_t>(block.bytes));
    if (block.by_worker) beside.add(-static_cast<int64_t>(block.bytes));
    if (current_frame) current_frame->release(address);
    self.default_->raw_deleter()(address);
  }

  c10::Allocator* const default_;
  std::mutex mutex_;
  struct HeapBlock {
    size_t bytes = 0;
    bool by_worker = false;
  };
  std::unordered_map<void*, HeapBlock> heap_blocks_;  // allocated while an op ran
};

}  // namespace

void cpu_allocator::install() {
  CountingAllocator::get();
}

void cpu_allocator::begin_op(AllocationFrame& frame) {
  check(current_frame == nullptr, "two ops run on one thread at once");
  current_frame = &frame;
  beside.reset_peak();
  beside_at_start = beside.live;
  ++running_ops;
}

int64_t cpu_allocator::end_op() {
  current_frame = nullptr;
  --running_ops;
  return beside.peak - beside_at_start;
}

int64_t cpu_allocator::out_of_arena_peak() {
  return out_of_arena.peak;
}
void cpu_allocator::reset_out_of_arena_peak() {
  out_of_arena.reset_peak();
}
int64_t cpu_allocator::out_of_arena_allocations() {
  return heap_requests;
}

}  // namespace plimsoll
