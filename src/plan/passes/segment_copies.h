// Declares the copies of one segment for offloaded buffers: when each buffer is copied, which copy each op uses,
// when copies start, and when ops wait for them.
//
//     ops      a   b   c   d   e | f   g   h   i        v is made by a, last read by b, and needed again by h
//     out          [=========]   |                       starts after a; v's bytes are free when it is done
//     in                         |       [=====]         starts as late as possible, but early enough for h
//
// Each direction of the link does one copy at a time, in the order in which they are started. If live bytes exceed the
// limit, ops wait for a copy out before it is done by itself, and a copy in starts too late to be hidden. The ops then
// wait, and the limit is kept. If copies in compete for bytes, the one that is needed first gets them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/passes/rewrite.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A copy from the device to host memory or disk.
struct CopyOut {
  int64_t bytes = 0;   ///< bytes as placed
  int32_t ready = 0;   ///< first op before which it may start: the source is not written to after that
  int32_t last = 0;    ///< the last op that needs the device's bytes
  int32_t latest = 0;  ///< op before which the wait must be, at the latest
  int32_t start = 0;   ///< result: the copy starts before this op
  /// Result: the wait is before this op, in (last, latest]; the device's bytes are free from then on.
  int32_t wait = 0;
  Memory to = Memory::host;
};

/// A copy from host memory or disk to the device.
struct CopyIn {
  int64_t bytes = 0;     ///< bytes as placed
  int32_t earliest = 0;  ///< first op before which it may start
  int32_t need = 0;      ///< op that needs the copy: the wait is before it
  /// Result: the copy starts before this op, in [earliest, need]; the device's bytes are used from then on.
  int32_t start = 0;
  Memory from = Memory::host;
};

/// A schedule of the copies of one segment.
class CopySchedule {
 public:
  /// Prepares the schedule for the ops of `segment`. `live`: the device's live bytes by op of the trace. The copies'
  /// buffers are counted only while ops need them: not after `last` of a copy out, and not before `need` of a copy in.
  /// `limit`: live bytes, at most, up to which a copy may hold bytes longer.
  CopySchedule(const CostModel& cost, const Trace& trace, const Segment& segment, const std::vector<int64_t>& live,
               int64_t limit);

  /// Sets `start` and `wait` of the copies out, then counts their bytes as live.
  void place(std::vector<CopyOut>& copies);
  /// Sets `start` of the copies in, then counts their bytes as live.
  void place(std::vector<CopyIn>& copies);

  /// Returns the largest sum of live bytes, copies included.
  int64_t peak() const;

 private:
  double copy_time(int64_t bytes, Memory offload_memory) const;

  const CostModel& cost_;
  int32_t begin_, end_;
  int64_t limit_;
  std::vector<double> seconds_, start_;  // by op of the segment: its seconds, and when it begins if nothing waits
  std::vector<int64_t> live_;            // live bytes by op of the segment
};

/// Largest distance, in ops, between consecutive uses of an offloaded buffer that share a residency interval.
constexpr int32_t kMaxUseGap = 16;

/// A planner of the copies of one segment for offloaded buffers: when each buffer is copied, and which copy each op
/// uses.
///
/// A residency interval is a range of ops during which a buffer that is stored in host memory or on disk has a copy on
/// the device. An offload interval is a range of ops during which a saved value is stored only in host memory. A host
/// copy holds the value of a device buffer in host memory, for an op that runs on the host.
class SegmentCopies {
 public:
  /// A context that all segments of a trace share. The buffers of `trace` are marked with their memories, and its ops
  /// with `on_host`. `offloaded_saved`, by buffer, marks the saved values to offload; it may be empty. `limit`: bytes
  /// up to which the live transient bytes may grow so that copies overlap ops. Within it, a copy in may start before
  /// the op that needs its value, and ops may run between the last use of a value and the wait for its copy out.
  struct Context {
    const Trace& trace;
    const std::vector<char>& offloaded_saved;
    const CostModel& cost;
    int64_t limit;
    std::vector<Lifetime> lifetimes;  ///< by buffer
    /// By buffer: 1 if it has data at this point of the plan. It is a constant, or an earlier op has written it.
    std::vector<char> written_before;
  };

  SegmentCopies(const Context& context, const Segment& segment);

  /// Returns whether the segment needs no copies: no op uses an offloaded buffer or a marked saved value, and no op
  /// runs on the host. plan() is then not needed.
  bool empty() const { return accesses_.empty() && host_ops_.empty(); }

  /// Decides every copy, and adds the buffers of the copies to the trace. `live`: live transient bytes on the device,
  /// by op of the trace, without offloaded buffers.
  void plan(Context& context, TraceRewriter& rewriter, std::vector<int64_t> live);

  /// Calls insert(stage, target, source) for each copy start and copy wait that precedes op `index`, in order. The
  /// segment's end is a valid `index`: for the starts and waits after its last op.
  template <typename Insert>
  void insert_before(int32_t index, const Insert& insert) const {
    if (const auto found = events_.find(index); found != events_.end())
      for (const CopyEvent& event : found->second) insert(event.stage, event.target, event.source);
  }

  /// Returns op `index` with its buffers replaced by the copies that it uses.
  Op with_copies(Op op, int32_t index) const;

 private:
  struct Access {
    int32_t op;
    bool written;
  };
  // Replaces `buffer` by a copy on the device in the ops `begin` to `end`. For an offloaded buffer these are the ops of
  // a residency interval; for a saved value, the ops after its offload interval.
  struct Swap {
    BufferId buffer = kNoBuffer;          // id in the old trace
    BufferId device_copy = kNoBuffer;     // copy on the device from `begin` on
    BufferId offload_buffer = kNoBuffer;  // in host memory or on disk; for an offloaded buffer, `buffer` itself
    int32_t begin = 0, end = 0;           // both inclusive
    int out = -1, in = -1;                // indices of its copies in copies_out_ and copies_in_; -1: none
    bool copies_out_first = false;        // true: a saved value; it is copied out before it is copied in
  };
  // A host copy of a device buffer.
  struct HostOperand {
    BufferId buffer = kNoBuffer;
    BufferId host_copy = kNoBuffer;
    int32_t first_use = 0;        // op for which it is copied; later ops may use it too
    int out = -1;                 // index of the copy in copies_out_
    int32_t copied_back_by = -1;  // the wait for the copy back is before this op; -1: no copy back
  };
  struct CopyEvent {
    int order;  // events before the same op run in this order
    CopyStage stage;
    BufferId target, source;
  };

  void plan_saved_value(const Context& context, TraceRewriter& rewriter, BufferId buffer, std::vector<int64_t>& live);
  void plan_resident_uses(Context& context, TraceRewriter& rewriter, BufferId buffer, std::vector<int64_t>& live);
  void plan_host_operands(Context& context, TraceRewriter& rewriter);
  void schedule_copies(const Context& context, const std::vector<int64_t>& live);

  Segment segment_;
  std::map<BufferId, std::vector<Access>> accesses_;    // uses on the device of saved and of offloaded buffers
  std::vector<int32_t> host_ops_;                       // ops that run on the host
  std::map<BufferId, std::vector<int32_t>> host_uses_;  // by buffer in host memory: the host ops that use it
  std::vector<double> start_seconds_;                   // by op of the segment: when it begins, in seconds
  std::vector<Swap> swaps_;
  std::vector<HostOperand> host_operands_;
  std::map<int32_t, std::map<BufferId, BufferId>>
      host_operand_of_;  // by op on the host: the host copy of each device buffer
  std::vector<CopyOut> copies_out_;
  std::vector<CopyIn> copies_in_;
  std::map<int32_t, std::vector<CopyEvent>> events_;  // by the op that they precede
  std::map<BufferId, std::vector<const Swap*>> by_buffer_;
};

}  // namespace plimsoll
