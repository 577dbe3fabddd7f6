// The copies of one segment: which buffer leaves the device when, which comes, and what ops use in its place.
#pragma once

#include <map>
#include <vector>

#include "plan/graph/copy_schedule.h"
#include "plan/graph/rewrite.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Uses of what lies elsewhere that are no more ops apart are one visit of the device.
constexpr int32_t kOneVisit = 16;

class SegmentMoves {
 public:
  /// What the pass knows of the whole trace. Its buffers are marked with the memory that they lie in, its ops with
  /// where they run; `saved` (by buffer, may be empty) leave the device for a while.
  struct Context {
    const Trace& trace;
    const std::vector<char>& saved;
    const CostModel& cost;
    int64_t limit;
    std::vector<Lifetime> lifetimes;   ///< by buffer
    std::vector<char> written_before;  ///< by buffer: by a segment before this one
  };

  SegmentMoves(const Context& context, const Segment& segment);

  /// There is nothing to do.
  bool empty() const { return accesses_.empty() && hosted_.empty(); }

  /// Decides every copy; new buffers are added to the trace. `live`: bytes on the device by op of the trace, without
  /// what lies elsewhere.
  void plan(Context& context, TraceRewriter& rewriter, std::vector<int64_t> live);

  /// insert(stage, target, source) for each copy that comes before op `index`, or at the segment's end.
  template <typename Insert>
  void insert_before(int32_t index, const Insert& insert) const {
    if (const auto found = copies_.find(index); found != copies_.end())
      for (const Copy& copy : found->second) insert(copy.stage, copy.target, copy.source);
  }

  /// Op `index` on the buffers that it is to use.
  Op renamed(Op op, int32_t index) const;

 private:
  struct Access {
    int32_t op;
    bool written;
  };
  // One stay on the device, or away from it, of one buffer.
  struct Move {
    BufferId buffer = kNoBuffer;  // as the old trace calls it
    BufferId device = kNoBuffer;  // where it is from `begin` on
    BufferId far = kNoBuffer;
    int32_t begin = 0, end = 0;  // ops that use `device` in place of `buffer`
    int out = -1, in = -1;       // indices of its copies
    bool absence = false;        // of a saved value: the copy out comes first
  };
  // What an op on the host uses in place of something on the device.
  struct Mirror {
    BufferId buffer = kNoBuffer;
    BufferId host = kNoBuffer;
    int32_t made = 0;   // the op for which it is copied; others may use it too
    int out = -1;       // index of the copy
    int32_t back = -1;  // the copy back is waited for before this op; -1: there is none
  };
  struct Copy {
    int order;
    CopyStage stage;
    BufferId target, source;
  };

  void plan_absence(const Context& context, TraceRewriter& rewriter, BufferId buffer, std::vector<int64_t>& live);
  void plan_visits(Context& context, TraceRewriter& rewriter, BufferId buffer, std::vector<int64_t>& live);
  void plan_mirrors(Context& context, TraceRewriter& rewriter);
  void schedule_copies(const Context& context, const std::vector<int64_t>& live);

  Segment segment_;
  std::map<BufferId, std::vector<Access>> accesses_;      // on the device, of what is moved or lies elsewhere
  std::vector<int32_t> hosted_;                           // ops that run on the host
  std::map<BufferId, std::vector<int32_t>> hosted_uses_;  // by them, of what lies in host memory
  std::vector<double> idle_before_;                       // by op of the segment: when it begins
  std::vector<Move> moves_;
  std::vector<Mirror> mirrors_;
  std::map<int32_t, std::map<BufferId, BufferId>> mirrored_;  // by op on the host: what it uses in place of what
  std::vector<CopyOut> outs_;
  std::vector<CopyIn> ins_;
  std::map<int32_t, std::vector<Copy>> copies_;  // by the op before which they come
  std::map<BufferId, std::vector<const Move*>> by_buffer_;
};

}  // namespace plimsoll
