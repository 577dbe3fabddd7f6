// Replays a plan's segments on a device, op by op through libtorch's dispatcher, below autograd, inside one arena.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/backend.h"
#include "device/disk_arena.h"
#include "plimsoll/error.h"
#include "plimsoll/plan.h"
#include "run/executor/captures.h"
#include "run/executor/exchange_lane.h"
#include "run/executor/guard.h"

namespace plimsoll {

using ProfileClock = std::chrono::steady_clock;

/// Name of the variable of the environment that makes an executor wait for each op, if it is 1. The error of a kernel,
/// which a GPU reports late, then names its op.
inline constexpr const char* kWaitForEachOp = "PLIMSOLL_WAIT_FOR_EACH_OP";

/// A span of time from begin to end, on the clock of this process.
struct TimeSpan {
  ProfileClock::time_point begin, end;
};

/// The observer of the ops that an executor runs and of the copies that overlap with them, for profiles.
class OpObserver {
 public:
  virtual ~OpObserver() = default;

  /// Reports that op `op` of the plan has run on the calling thread. A copy op has been started, or waited for.
  virtual void ran(int32_t op, const TimeSpan& span) = 0;

  /// Reports that the copy or exchange that op `op` started is done. Called by the thread that made it, before any
  /// waiting thread continues; must not throw.
  virtual void copied(int32_t op, const TimeSpan& span) = 0;
};

/// Context of random operators: the numbers that they draw are a function of these members and the op's random id only.
struct RandomContext {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro = 0;
};

class Executor {
 public:
  /// Binds every op of the plan to its address in the backend's arena; no tensor is allocated after that. Values
  /// offloaded to host memory are stored in `host`, those offloaded to disk in `disk`. Either may be null if the plan
  /// offloads nothing there. All arguments must outlive the executor.
  Executor(const Plan& plan, Backend& backend, Arena& arena, Arena* host = nullptr, DiskArena* disk = nullptr);
  ~Executor();

  /// Checks every op from now on (run/executor/guard.h), and waits for each copy and exchange.
  /// Throws UserError if the host does not address the device's memory.
  void check_ops();

  /// Runs a segment. Throws UserError if a kernel refuses its input (an index out of range, say), naming the op and its
  /// module, or if a write to the disk fails. Throws InternalError if check_ops() finds a fault of an op.
  void run(const Segment& segment, const RandomContext& random);

  /// Sets the observer of every op and copy from now on; null: none, which costs a branch for each op. Waits for copies
  /// and exchanges in flight, so that the previous observer is not called any more. Throws the error of waiting after
  /// the change is made.
  void set_observer(OpObserver* observer) {
    observer_ = observer;
    exchanges_.wait_for_all();
    copies_->wait_for_all();
  }

  /// Returns the tensor at a view's address in the arena; valid as long as the executor.
  at::Tensor tensor(const View& view);

  /// Copies `bytes` bytes from the host to the first bytes of a contiguous view (write), or back (read).
  void write(const View& view, const void* source, int64_t bytes);
  void read(const View& view, void* target, int64_t bytes);

  /// Returns the end of the highest byte of the arena that any op run so far has used.
  int64_t arena_bytes_used() const { return bytes_used_[0]; }

  /// Return the same end for the host's arena, and for the disk's.
  int64_t host_bytes_used() const { return bytes_used_[static_cast<int>(Memory::host)]; }
  int64_t disk_bytes_used() const { return bytes_used_[static_cast<int>(Memory::disk)]; }

  /// Returns scratch bytes that ops allocated beyond their plan, by op index: the planner needs them to plan again.
  const std::map<int32_t, int64_t>& unplanned_workspace() const { return unplanned_; }

  /// Returns what was captured, and the results that were copied to their planned addresses.
  DeviceWork device_work() const;

  /// Returns the largest number of bytes that threads other than the op's allocated outside the arena at one time.
  int64_t other_thread_bytes() const { return std::max(other_thread_bytes_, exchanges_.out_of_arena_bytes()); }

 private:
  struct BoundOp;
  const at::Tensor& bind(const View& view);
  BoundOp bind_op(int32_t index);
  Backend& backend_of(const Op& op) const;
  void run_copy(BoundOp& op);
  void start_exchange(BoundOp& op);
  void note_use(const BoundOp& op);
  void run_ops(const Segment& segment);
  void wait_for(const BoundOp& op) const;
  void run_one(BoundOp& op);
  void run_checked(BoundOp& op);
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
  RandomContext random_;                   // the segment's that runs
  std::unique_ptr<CopyEngine> copies_;
  ExchangeLane exchanges_;
  Captures captures_;
  std::array<int64_t, kMemories> bytes_used_{};  // by memory
  std::map<int32_t, int64_t> unplanned_;
  std::map<int32_t, int64_t> copied_;  // by op: bytes of results that its last run copied
  int64_t other_thread_bytes_ = 0;
  OpObserver* observer_ = nullptr;
  std::unique_ptr<OpGuard> guard_;  // null: ops are not checked
};

/// Returns whether kWaitForEachOp is set. Read once.
bool waits_for_each_op();

/// An op of a plan, bound to its addresses in the arenas.
struct Executor::BoundOp {
  int32_t index;
  const Op* op;
  Backend* backend;
  std::optional<c10::OperatorHandle> handle;     // none for a copy
  std::vector<c10::IValue> arguments;            // tensors in the arena, and constants
  std::vector<AllocationFrame::Output> outputs;  // the kernel allocates these itself
  std::vector<at::Tensor> results;               // tensors for the outputs, in schema order; undefined: unused
  std::vector<int> result_positions;  // by result: its position on the stack after the call, or -1 if it is within a
                                      // list
  std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
  bool sums_at_indices = false;              // index_put() that accumulates: on the CPU, with atomics in any order
  std::array<int64_t, kMemories> extents{};  // by memory: end of the op's operands, in bytes of the arena

  /// Returns the error for a kernel that refused the op, with its reason.
  UserError refused(const Trace& trace, const std::string& what) const {
    const std::string& module = trace.modules[op->module];
    const std::string reason = what.substr(0, what.find('\n'));
    // CUDA and HIP report a kernel's error at a later call, which may belong to another op.
    const bool late = !waits_for_each_op() &&
                      (reason.find("CUDA error") != std::string::npos ||
                       reason.find("HIP error") != std::string::npos || reason.find("(cudaError") != std::string::npos);
    return UserError(
        fmt::format("operator {}{} failed: {}{}", op->name,
                    module.empty() ? "" : fmt::format(" in module '{}'", module), reason,
                    late ? fmt::format("; an earlier operator may be the cause: set {}=1 in the environment to find it",
                                       kWaitForEachOp)
                         : ""),
        UserError::Kind::failure);
  }
};

}  // namespace plimsoll
