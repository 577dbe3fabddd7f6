#include "plan/passes/offload.h"

#include <algorithm>
#include <map>

#include "plan/copy_schedule.h"
#include "plan/passes/rewrite.h"
#include "plimsoll/error.h"
#include "plimsoll/liveness.h"

namespace plimsoll {
namespace {

// Uses of state that are no more ops apart are one visit.
constexpr int32_t kOneVisit = 16;

bool is_set(const std::vector<char>& list, size_t index) {
  return index < list.size() && list[index];
}

struct Access {
  int32_t op;
  bool written;
};

// One stay on the device, or away from it, of one buffer in one segment.
struct Move {
  BufferId buffer = kNoBuffer;  // as the old trace calls it
  BufferId device = kNoBuffer;  // where it is from `begin` on
  BufferId host = kNoBuffer;
  int32_t begin = 0, end = 0;  // ops that use `device` in place of `buffer`
  int out = -1, in = -1;       // indices of its copies
};

Op copy_op(CopyStage stage, const Trace& trace, BufferId target, BufferId source, const Op& near) {
  const int64_t bytes = trace.buffers[source].bytes;
  const auto whole = [&](BufferId buffer) { return View{buffer, DType::uint8, 0, {bytes}, {1}}; };
  Op op;
  op.copy = stage;
  op.name = stage == CopyStage::wait     ? "plimsoll::wait_for_copy"
            : trace.buffers[target].host ? "plimsoll::copy_to_host"
                                         : "plimsoll::copy_to_device";
  op.arguments.push_back({Argument::Kind::tensor, stage == CopyStage::start, {whole(target)}});
  op.arguments.push_back({Argument::Kind::tensor, false, {whole(source)}});
  op.phase = near.phase;
  op.module = near.module;
  if (stage == CopyStage::start) op.bytes_moved = 2 * bytes;
  return op;
}

class SegmentOffload {
 public:
  SegmentOffload(const Trace& trace, const Segment& segment, const OffloadChoice& choice) : segment_(segment) {
    for (int32_t i = segment.begin; i < segment.end; ++i)
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        if (!is_set(choice.saved, view.buffer) && !is_set(choice.state, view.buffer)) return;
        auto& list = accesses_[view.buffer];
        if (!list.empty() && list.back().op == i)
          list.back().written = list.back().written || written;
        else
          list.push_back({i, written});
      });
  }

  bool empty() const { return accesses_.empty(); }

  /// Decides every copy; new buffers are added to the trace.
  void plan(const Trace& trace, TraceRewriter& rewriter, const OffloadChoice& choice, const CostModel& cost,
            std::vector<int64_t> live, int64_t limit, std::vector<char>& written_before) {
    for (const auto& [buffer, list] : accesses_) {
      if (is_set(choice.state, buffer))
        plan_visits(trace, rewriter, buffer, list, live, written_before);
      else
        plan_absence(trace, rewriter, buffer, list, cost, live);
    }
    CopySchedule schedule(cost, trace, segment_, live, limit);
    schedule.place(outs_);
    std::map<BufferId, int32_t> away_since;
    for (Move& move : moves_) {
      // What is fetched must have arrived there: by its own copy out, or by that of the visit before.
      const bool absence = move.out >= 0 && move.in >= 0 && outs_[move.out].ready <= move.begin;
      if (absence)
        ins_[move.in].earliest = outs_[move.out].wait;
      else if (const auto found = away_since.find(move.buffer); move.in >= 0 && found != away_since.end())
        ins_[move.in].earliest = found->second;
      if (!absence && move.out >= 0) away_since[move.buffer] = outs_[move.out].wait;
    }
    schedule.place(ins_);
    for (const Move& move : moves_) {
      const bool absence = is_set(choice.saved, move.buffer);
      if (move.out >= 0) {
        const BufferId source = absence ? move.buffer : move.device;
        // Waits come first: they give bytes back. But not before the start.
        const CopyOut& out = outs_[move.out];
        copies_[out.start].push_back({1, CopyStage::start, move.host, source});
        copies_[out.wait].push_back({out.wait == out.start ? 2 : 0, CopyStage::wait, move.host, source});
      }
      if (move.in >= 0) {
        copies_[ins_[move.in].start].push_back({3, CopyStage::start, move.device, move.host});
        copies_[ins_[move.in].need].push_back({4, CopyStage::wait, move.device, move.host});
      }
    }
    for (auto& [op, list] : copies_)
      std::stable_sort(list.begin(), list.end(), [](const Copy& a, const Copy& b) { return a.order < b.order; });
    for (const Move& move : moves_) by_buffer_[move.buffer].push_back(&move);
  }

  /// Copies that come before op `index`, or at the segment's end.
  template <typename Insert>
  void insert_before(int32_t index, const Insert& insert) const {
    if (const auto found = copies_.find(index); found != copies_.end())
      for (const Copy& copy : found->second) insert(copy.stage, copy.target, copy.source);
  }

  bool changes(const Op& op) const {
    bool changes = false;
    for_each_view(op, [&](const View& view, bool) { changes = changes || by_buffer_.contains(view.buffer); });
    return changes;
  }

  Op renamed(Op op, int32_t index) const {
    const auto rename = [&](View& view) {
      const auto found = by_buffer_.find(view.buffer);
      if (found == by_buffer_.end()) return;
      for (const Move* move : found->second)
        if (move->begin <= index && index <= move->end) view.buffer = move->device;
    };
    for (Argument& argument : op.arguments)
      for (View& view : argument.views) rename(view);
    for (View& view : op.results) rename(view);
    return op;
  }

 private:
  struct Copy {
    int order;
    CopyStage stage;
    BufferId target, source;
  };

  // A saved value: away in its longest idle time.
  void plan_absence(const Trace& trace, TraceRewriter& rewriter, BufferId buffer, const std::vector<Access>& list,
                    const CostModel& cost, std::vector<int64_t>& live) {
    check(!trace.buffers[buffer].persistent, "only what is made in the segment can be moved away within it");
    if (idle_before_.empty()) {
      double clock = 0;
      for (int32_t i = segment_.begin; i < segment_.end; ++i) {
        idle_before_.push_back(clock);
        clock += seconds_of(cost, trace.ops[i]);
      }
    }
    size_t best = 0;
    double longest = 0;
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i].op <= list[i - 1].op + 1) continue;
      const double idle = idle_before_[list[i].op - segment_.begin] - idle_before_[list[i - 1].op + 1 - segment_.begin];
      if (best == 0 || idle > longest) {
        best = i;
        longest = idle;
      }
    }
    if (best == 0) return;  // always in use
    int32_t last_write = list.front().op;
    for (size_t i = 0; i < best; ++i)
      if (list[i].written) last_write = list[i].op;
    const int64_t bytes = placed_bytes(trace.buffers[buffer].bytes);
    const int32_t gone = list[best - 1].op, back = list[best].op;
    Move move{buffer};
    move.begin = back;
    move.end = segment_.end;
    Buffer copy = trace.buffers[buffer];
    move.device = rewriter.add_buffer(copy);
    copy.host = true;
    move.host = rewriter.add_buffer(std::move(copy));
    move.out = static_cast<int>(outs_.size());
    outs_.push_back({bytes, last_write + 1, gone, back, 0, 0});
    move.in = static_cast<int>(ins_.size());
    ins_.push_back({bytes, back, back, 0});
    for (int32_t op = gone + 1; op < back; ++op) live[op] -= bytes;
    moves_.push_back(move);
  }

  // State: a visit of the device for each cluster of uses.
  void plan_visits(const Trace& trace, TraceRewriter& rewriter, BufferId buffer, const std::vector<Access>& list,
                   std::vector<int64_t>& live, std::vector<char>& written_before) {
    check(trace.buffers[buffer].persistent, "state is persistent");
    const int64_t bytes = placed_bytes(trace.buffers[buffer].bytes);
    for (size_t i = 0; i < list.size();) {
      size_t end = i;
      bool written = list[i].written;
      while (end + 1 < list.size() && list[end + 1].op - list[end].op <= kOneVisit)
        written = list[++end].written || written;
      Move move{buffer};
      move.begin = list[i].op;
      move.end = list[end].op;
      move.host = buffer;
      // What the visit before it wrote must be there by then.
      if (!moves_.empty() && moves_.back().buffer == buffer && moves_.back().out >= 0)
        outs_[moves_.back().out].latest = move.begin;
      Buffer copy = trace.buffers[buffer];
      copy.persistent = copy.host = false;
      move.device = rewriter.add_buffer(std::move(copy));
      // What nobody has written yet is not fetched: it is being made.
      if (written_before[buffer] || !list[i].written) {
        move.in = static_cast<int>(ins_.size());
        ins_.push_back({bytes, segment_.begin, move.begin, 0});
      }
      if (written) {
        written_before[buffer] = 1;
        move.out = static_cast<int>(outs_.size());
        outs_.push_back({bytes, move.end + 1, move.end, segment_.end, 0, 0});
      }
      for (int32_t op = move.begin; op <= move.end; ++op) live[op] += bytes;
      moves_.push_back(move);
      i = end + 1;
    }
  }

  Segment segment_;
  std::map<BufferId, std::vector<Access>> accesses_;
  std::vector<double> idle_before_;  // by op of the segment: when it begins
  std::vector<Move> moves_;
  std::vector<CopyOut> outs_;
  std::vector<CopyIn> ins_;
  std::map<int32_t, std::vector<Copy>> copies_;  // by the op before which they come
  std::map<BufferId, std::vector<const Move*>> by_buffer_;
};

}  // namespace

Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit) {
  std::vector<SegmentOffload> segments;
  for (const Segment& segment : trace.segments) segments.emplace_back(trace, segment, choice);
  std::vector<char> written_before(trace.buffers.size(), 0);
  for (const ConstantData& constant : trace.constants) written_before[constant.buffer] = 1;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes_of(trace));
  TraceRewriter rewriter(trace);
  for (SegmentOffload& segment : segments)
    if (!segment.empty()) segment.plan(trace, rewriter, choice, cost, live, limit, written_before);
  for (size_t b = 0; b < choice.state.size(); ++b)
    if (choice.state[b]) trace.buffers[b].host = true;

  size_t s = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(trace.ops.size()); ++i) {
    while (s < segments.size() && trace.segments[s].end <= i) ++s;
    if (s == segments.size() || i < trace.segments[s].begin || segments[s].empty()) {
      rewriter.keep(i);
      continue;
    }
    Op op = std::move(trace.ops[i]);
    Op near;  // what a copy takes over from the op that it is next to
    near.phase = op.phase;
    near.module = op.module;
    const auto insert = [&](CopyStage stage, BufferId target, BufferId source) {
      rewriter.insert(copy_op(stage, trace, target, source, near), i);
    };
    segments[s].insert_before(i, insert);
    rewriter.replace(i, segments[s].changes(op) ? segments[s].renamed(std::move(op), i) : std::move(op));
    if (i + 1 == trace.segments[s].end) segments[s].insert_before(i + 1, insert);
  }
  return rewriter.finish();
}

}  // namespace plimsoll
