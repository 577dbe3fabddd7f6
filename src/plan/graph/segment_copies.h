// Declares the copies of one segment for offloaded buffers: when each buffer is copied, and which copy each op uses.
//
// A residency interval is a range of ops during which a buffer that is stored in host memory or on disk has a copy on
// the device. An offload interval is a range of ops during which a saved value is stored only in host memory. A host
// copy holds the value of a device buffer in host memory, for an op that runs on the host.
#pragma once

#include <map>
#include <vector>

#include "plan/graph/copy_schedule.h"
#include "plan/graph/rewrite.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Largest distance, in ops, between consecutive uses of an offloaded buffer that share a residency interval.
constexpr int32_t kMaxUseGap = 16;

/// A planner of the copies of one segment.
class SegmentCopies {
 public:
  /// A context that all segments of a trace share. The buffers of `trace` are marked with their memories, and its ops
  /// with `on_host`. `saved`, by buffer, marks the saved values to offload; may be empty. `limit`: live bytes on the
  /// device up to which a copy may hold bytes longer, to overlap ops.
  struct Context {
    const Trace& trace;
    const std::vector<char>& saved;
    const CostModel& cost;
    int64_t limit;
    std::vector<Lifetime> lifetimes;   ///< by buffer
    std::vector<char> written_before;  ///< by buffer: 1 if it has data: a constant, or written by ops planned so far
  };

  SegmentCopies(const Context& context, const Segment& segment);

  /// Returns true if ops of the segment use no offloaded buffer or marked saved value, and none runs on the host.
  /// plan() is then not needed.
  bool empty() const { return accesses_.empty() && host_ops_.empty(); }

  /// Decides every copy, and adds the buffers of the copies to the trace. `live`: bytes on the device by op of the
  /// trace, without offloaded buffers.
  void plan(Context& context, TraceRewriter& rewriter, std::vector<int64_t> live);

  /// Calls insert(stage, target, source) for each copy start and copy wait that precedes op `index`. If `index` is the
  /// segment's end, these follow its last op.
  template <typename Insert>
  void insert_before(int32_t index, const Insert& insert) const {
    if (const auto found = copies_.find(index); found != copies_.end())
      for (const Copy& copy : found->second) insert(copy.stage, copy.target, copy.source);
  }

  /// Returns op `index` with its buffers replaced by the copies that it uses.
  Op with_copies(Op op, int32_t index) const;

 private:
  struct Access {
    int32_t op;
    bool written;
  };
  // Ops [begin, end] that use a copy on the device instead of `buffer`. They are a residency interval, or the ops after
  // the offload interval of a saved value.
  struct Swap {
    BufferId buffer = kNoBuffer;  // id in the old trace
    BufferId device = kNoBuffer;  // copy on the device from `begin` on
    BufferId offload_buffer = kNoBuffer;
    int32_t begin = 0, end = 0;     // both inclusive
    int out = -1, in = -1;          // indices of its copies in outs_ and ins_; -1: none
    bool copies_out_first = false;  // true: a saved value; it is copied out before it is copied in
  };
  // A host copy of a device buffer.
  struct HostOperand {
    BufferId buffer = kNoBuffer;
    BufferId host = kNoBuffer;
    int32_t first_use = 0;  // op for which it is copied; later ops may use it too
    int out = -1;           // index of the copy in outs_
    int32_t back = -1;      // the wait for the copy back is before this op; -1: no copy back
  };
  struct Copy {
    int order;
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
  std::map<BufferId, std::vector<int32_t>> host_uses_;  // their uses of buffers in host memory
  std::vector<double> start_seconds_;                   // by op of the segment: when it begins, in seconds
  std::vector<Swap> swaps_;
  std::vector<HostOperand> host_operands_;
  std::map<int32_t, std::map<BufferId, BufferId>>
      host_operand_of_;  // by op on the host: the host copy of each device buffer
  std::vector<CopyOut> outs_;
  std::vector<CopyIn> ins_;
  std::map<int32_t, std::vector<Copy>> copies_;  // by the op that they precede
  std::map<BufferId, std::vector<const Swap*>> by_buffer_;
};

}  // namespace plimsoll
