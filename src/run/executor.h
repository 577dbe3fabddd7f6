// Replays a plan's segments on a device, op by op through libtorch's dispatcher, below autograd, inside one arena.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/backend.h"
#include "device/disk_arena.h"
#include "plimsoll/plan.h"
#include "run/captures.h"
#include "run/exchange_lane.h"
#include "run/op_observer.h"

namespace plimsoll {

/// Which numbers random operators draw: a function of these, the op's random id and nothing else.
struct RandomContext {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro = 0;
};

class Executor {
 public:
  /// Binds every op of the plan to its place in the backend's arena; nothing is allocated for tensors after that. What
  /// the plan moves to host memory lies in `host`, what it moves to disk in `disk`; either may be missing where that is
  /// nothing. All must outlive the executor.
  Executor(const Plan& plan, Backend& backend, Arena& arena, Arena* host = nullptr, DiskArena* disk = nullptr);
  ~Executor();

  /// Runs a segment. Throws UserError if a kernel refuses its input (an index out of range, say), naming the op and its
  /// module, or if the disk does not take what is moved there.
  void run(const Segment& segment, const RandomContext& random);

  /// Who hears of every op and copy from now on; null: nobody, which costs a branch an op. Copies that were begun are
  /// waited for, and so are exchanges: who was told of them so far is not called any more. Throws what waiting throws,
  /// after it is done.
  void set_observer(OpObserver* observer) {
    observer_ = observer;
    exchanges_.wait_for_all();
    copies_->wait_for_all();
  }

  /// The tensor at a view's place in the arena; valid as long as the executor.
  at::Tensor tensor(const View& view);

  /// Copies to the bytes of a contiguous view, from the host; and from them. `bytes` are the first of the view's.
  void write(const View& view, const void* source, int64_t bytes);
  void read(const View& view, void* target, int64_t bytes);

  /// The highest byte of the arena that any op run so far has used, plus one.
  int64_t arena_bytes_used() const { return bytes_used_[0]; }

  /// The same of the host's arena, and of the disk's.
  int64_t host_bytes_used() const { return bytes_used_[static_cast<int>(Memory::host)]; }
  int64_t disk_bytes_used() const { return bytes_used_[static_cast<int>(Memory::disk)]; }

  /// Scratch that ops took beyond what was planned for them, by op index: what to plan them with.
  const std::map<int32_t, int64_t>& unplanned_workspace() const { return unplanned_; }

  /// The most bytes at a time that other threads than the one that runs an op took elsewhere for it.
  int64_t beside_bytes() const { return std::max(beside_bytes_, exchanges_.outside_bytes()); }

  /// Sequences of ops that the device runs by itself.
  int64_t captured() const { return captures_.captured(); }

  /// Outputs that a kernel put elsewhere, so that they had to be copied to their place.
  int64_t copied_outputs() const { return copied_outputs_; }

 private:
  struct BoundOp;
  const at::Tensor& bind(const View& view);
  BoundOp bind_op(int32_t index);
  Backend& backend_of(const Op& op) const;
  void run_copy(BoundOp& op);
  void start_exchange(BoundOp& op);
  void note_use(const BoundOp& op);
  void run_one(BoundOp& op);
  void run_op(BoundOp& op);
  Arena* arena_of(Memory memory) const;
  std::byte* address_in(Memory memory, int64_t offset) const;
  std::byte* place_of(BufferId buffer) const;
  void settle_outputs(BoundOp& op);

  const Plan& plan_;
  Backend& backend_;
  Arena& arena_;
  Arena* host_;
  DiskArena* disk_;
  AllocationFrame frame_;
  std::vector<Backend::Place> places_;                                            // by buffer
  std::unordered_map<size_t, std::vector<std::pair<View, at::Tensor>>> tensors_;  // by hash of the view
  std::vector<BoundOp> ops_;
  std::vector<c10::IValue> stack_;
  std::vector<int64_t> copy_numbers_;      // by buffer: the last copy to it that was started
  std::vector<int64_t> exchange_numbers_;  // by buffer: the last exchange into it that was started
  int64_t awaited_ = 0;                    // the last copy that ops have waited for
  RandomContext random_;                   // of the segment that runs
  std::unique_ptr<CopyEngine> copies_;
  ExchangeLane exchanges_;
  Captures captures_;
  std::array<int64_t, kMemories> bytes_used_{};  // by memory
  std::map<int32_t, int64_t> unplanned_;
  int64_t beside_bytes_ = 0;
  int64_t copied_outputs_ = 0;
  OpObserver* observer_ = nullptr;
};

}  // namespace plimsoll
