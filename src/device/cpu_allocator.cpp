#include "device/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kAlignment = 64;
int64_t rounded(size_t bytes) {
  return static_cast<int64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
}

thread_local AllocationFrame* current_frame = nullptr;
std::atomic<int> running_ops{0};

// Bytes now, and the most there were.
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
Counter outside;  // on the heap, while ops run
Counter beside;   // of these, by threads that run no op themselves: a kernel's workers

}  // namespace

// Requests made while no op runs go to the allocator that was there before.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& get() {
    static auto* allocator = new CountingAllocator;  // kernels may free during static destruction
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (running_ops == 0 || bytes == 0) return default_->allocate(bytes);
    const c10::Device cpu(c10::DeviceType::CPU);
    AllocationFrame* frame = current_frame;
    if (frame) {
      if (void* place = frame->claim_output(bytes)) return {place, place, &keep, cpu};
      const int64_t offset = frame->find_gap(rounded(bytes));
      if (offset + rounded(bytes) <= frame->workspace_bytes_) {
        void* address = frame->workspace_ + offset;
        frame->add_block({offset, rounded(bytes), address, /*from_heap=*/false});
        return {address, address, &keep, cpu};
      }
      void* address = take_from_heap(bytes);
      frame->add_block({offset, rounded(bytes), address, /*from_heap=*/true});
      return {address, address, &release, cpu};
    }
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
    {
      std::lock_guard lock(mutex_);
      heap_blocks_[address] = {bytes, by_worker};
    }
    outside.add(static_cast<int64_t>(bytes));
    if (by_worker) beside.add(static_cast<int64_t>(bytes));
    return address;
  }

  // Outputs and planned scratch: the arena keeps the memory, the frame only wants to know.
  static void keep(void* address) {
    if (current_frame) current_frame->release(address);
  }

  static void release(void* address) {
    // Through raw_allocate and raw_deallocate, memory that was only lent comes back here as well.
    if (current_frame && current_frame->lent(address)) return current_frame->release(address);
    CountingAllocator& self = get();
    HeapBlock block;
    {
      std::lock_guard lock(self.mutex_);
      if (const auto found = self.heap_blocks_.find(address); found != self.heap_blocks_.end()) {
        block = found->second;
        self.heap_blocks_.erase(found);
      }
    }
    if (block.bytes > 0) outside.add(-static_cast<int64_t>(block.bytes));
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
  std::unordered_map<void*, HeapBlock> heap_blocks_;  // taken while an op ran
};

AllocationFrame::AllocationFrame() {
  CountingAllocator::get();
}
AllocationFrame::~AllocationFrame() = default;

void AllocationFrame::begin(std::vector<Output>&& outputs, std::byte* workspace, int64_t workspace_bytes) {
  check(current_frame == nullptr, "two ops run on one thread at once");
  outputs_ = std::move(outputs);
  workspace_ = workspace;
  workspace_bytes_ = workspace_bytes;
  blocks_.clear();
  high_water_ = outside_ = outside_high_ = 0;
  current_frame = this;
  beside.reset_peak();
  beside_at_start_ = beside.live;
  ++running_ops;
}

AllocationFrame::Usage AllocationFrame::end() {
  current_frame = nullptr;
  --running_ops;
  Usage usage{high_water_, outside_high_, beside.peak - beside_at_start_};
  for (const Block& block : blocks_) (block.from_heap ? usage.escaped : usage.escaped_arena) = true;
  return usage;
}

// An output is recognised by its exact size.
void* AllocationFrame::claim_output(size_t bytes) {
  for (Output& output : outputs_) {
    if (output.taken || output.bytes != bytes) continue;
    output.taken = true;
    return output.place;
  }
  return nullptr;
}

// Scratch is laid out first-fit in an imaginary region without end: how far it reaches is what the op should have been
// planned with.
int64_t AllocationFrame::find_gap(int64_t bytes) const {
  int64_t offset = 0;
  for (const Block& block : blocks_) {
    if (block.offset - offset >= bytes) break;
    offset = std::max(offset, block.offset + block.bytes);
  }
  return offset;
}

void AllocationFrame::add_block(const Block& block) {
  const auto at =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) { return other.offset > block.offset; });
  blocks_.insert(at, block);
  high_water_ = std::max(high_water_, block.offset + block.bytes);
  if (block.from_heap) outside_high_ = std::max(outside_high_, outside_ += block.bytes);
}

bool AllocationFrame::lent(void* address) const {
  if (workspace_ != nullptr && address >= workspace_ && address < workspace_ + workspace_bytes_) return true;
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const Output& output) { return output.place == address; });
}

void AllocationFrame::release(void* address) {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.address == address; });
  if (found == blocks_.end()) return;
  if (found->from_heap) outside_ -= found->bytes;
  blocks_.erase(found);
}

int64_t AllocationFrame::outside_peak() {
  return outside.peak;
}
void AllocationFrame::reset_outside_peak() {
  outside.reset_peak();
}

}  // namespace plimsoll
