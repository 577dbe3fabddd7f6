#include "plan/passes/update_in_backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cost/operators.h"
#include "plan/passes/rewrite.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Kind = UpdatePiece::Kind;

// Maps an op `index` of a segment to the ops inserted after it, by their old indices; -1: before the first op.
using Insertions = std::map<int32_t, std::vector<int32_t>>;

// Returns the last op of a segment that uses one of two buffers.
int32_t last_touch(const Trace& trace, const Segment& segment, BufferId a, BufferId b) {
  for (int32_t i = segment.end; i-- > segment.begin;) {
    bool touched = false;
    for_each_view(trace.ops[i], [&](const View& view, bool) { touched |= view.buffer == a || view.buffer == b; });
    if (touched) return i;
  }
  return segment.end - 1;
}

int32_t last_forward(const Trace& trace, const Segment& segment) {
  int32_t last = segment.begin - 1;
  while (last + 1 < segment.end && trace.ops[last + 1].phase == Phase::forward) ++last;
  return last;
}

class Builder {
 public:
  explicit Builder(Trace& trace) : old_(trace), shared_(trace.buffers.size(), 0) {
    // Marks gradients that several micro batches share. Those of a single micro batch are used by the update only.
    std::vector<int32_t> seen(trace.buffers.size(), -1);
    for (int32_t s = 0; s < static_cast<int32_t>(trace.segments.size()); ++s)
      if (const Segment& segment = trace.segments[s]; segment.kind != SegmentKind::update)
        for (int32_t i = segment.begin; i < segment.end; ++i)
          for_each_view(trace.ops[i], [&](const View& view, bool) {
            shared_[view.buffer] |= seen[view.buffer] >= 0 && seen[view.buffer] != s;
            seen[view.buffer] = s;
          });
  }

  void begin_segment(SegmentKind kind) { segments_.push_back({kind, count(), count()}); }

  /// Appends the ops of a segment with `insertions` between them. `fresh`: buffers that live only in the segment are
  /// replaced by new ones.
  void add(const Segment& segment, const Insertions& insertions, bool fresh) {
    if (fresh) twin_.assign(old_.buffers.size(), kNoBuffer);
    add_list(insertions, segment.begin - 1);
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      add_op(i);
      add_list(insertions, i);
    }
    segments_.back().end = count();
    twin_.clear();
  }

  Trace finish() {
    old_.ops = std::move(ops_);
    old_.segments = std::move(segments_);
    old_.update_pieces.clear();
    return std::move(old_);
  }

 private:
  int32_t count() const { return static_cast<int32_t>(ops_.size()); }

  void add_list(const Insertions& insertions, int32_t after) {
    if (const auto found = insertions.find(after); found != insertions.end())
      for (int32_t i : found->second) add_op(i);
  }

  void add_op(int32_t index) {
    Op op = old_.ops[index];
    if (!twin_.empty()) replace_buffers(op, [&](BufferId buffer, bool) { return twin_of(buffer); });
    ops_.push_back(std::move(op));
  }

  BufferId twin_of(BufferId buffer) {
    if (old_.buffers[buffer].persistent || old_.buffers[buffer].output || shared_[buffer]) return buffer;
    if (twin_[buffer] == kNoBuffer) {
      twin_[buffer] = static_cast<BufferId>(old_.buffers.size());
      old_.buffers.push_back(Buffer(old_.buffers[buffer]));
    }
    return twin_[buffer];
  }

  Trace& old_;
  std::vector<Op> ops_;
  std::vector<Segment> segments_;
  std::vector<char> shared_;    // by old buffer: more than one segment uses it
  std::vector<BufferId> twin_;  // by old buffer: the new one in the current segment
};

void append(Insertions& insertions, int32_t after, const UpdatePiece& piece) {
  for (int32_t i = piece.begin; i < piece.end; ++i) insertions[after].push_back(i);
}

// Returns a persistent buffer, other than an output, that the micro batch itself changes: running statistics. null:
// none.
const Buffer* changed_by_micro(const Trace& trace, const Segment& micro) {
  const Buffer* changed = nullptr;
  for (int32_t i = micro.begin; i < micro.end; ++i)
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      const Buffer& buffer = trace.buffers[view.buffer];
      if (exchange_op_of(trace.ops[i]) == ExchangeOp::gather)
        return;  // it gathers the ranks' slices, which have not changed
      if (written && buffer.persistent && !buffer.output && !changed) changed = &buffer;
    });
  return changed;
}

}  // namespace

bool needs_norm_pass(const Trace& trace) {
  return std::ranges::any_of(trace.update_pieces, [](const UpdatePiece& piece) { return piece.kind == Kind::clip; });
}

std::string update_in_backward_obstacle(const Trace& trace) {
  const Segment* micro = trace.segment(SegmentKind::micro);
  if (!micro || trace.update_pieces.empty()) return "no update was recorded";
  if (trace.segment(SegmentKind::accumulate) && needs_norm_pass(trace))
    return "the norm of all gradients is wanted before the first update, and with several micro batches that is known "
           "after the last one only; set max_grad_norm: 0 (and no precision of 16-mixed), or "
           "gradient_accumulation_steps: 1";
  if (!needs_norm_pass(trace)) return "";
  if (const Buffer* changed = changed_by_micro(trace, *micro))
    return fmt::format(
        "the norm of all gradients is wanted before the first update, which takes a second forward, and forward "
        "changes '{}'; set max_grad_norm: 0",
        changed->label);
  return "";
}

namespace {

// Returns the places of norms and updates: after the last use of gradient and parameter in the segment.
Insertions updates_within(const Trace& trace, const Segment& segment) {
  Insertions insertions;
  for (const UpdatePiece& piece : trace.update_pieces)
    // After the last forward op, so that forward ops stay together.
    if (piece.kind == Kind::begin)
      append(insertions, last_forward(trace, segment), piece);
    else if (piece.kind == Kind::norm || piece.kind == Kind::update)
      append(insertions, last_touch(trace, segment, piece.gradient, piece.parameter), piece);
  return insertions;
}

Trace update_in_last_micro_batch(Trace trace) {
  Builder builder(trace);
  const std::vector<Segment> segments = trace.segments;
  const Segment accumulate = *trace.segment(SegmentKind::accumulate);
  const bool ragged = trace.segment(SegmentKind::remainder) != nullptr;
  for (const Segment& segment : segments) {
    builder.begin_segment(segment.kind);
    // Each copy of an update has its own temporaries.
    const bool updates = segment.kind == SegmentKind::remainder;
    builder.add(segment, updates ? updates_within(trace, segment) : Insertions{}, /*fresh=*/updates);
    if (segment.kind == (ragged ? SegmentKind::remainder : SegmentKind::accumulate)) {
      builder.begin_segment(SegmentKind::last);
      builder.add(accumulate, updates_within(trace, accumulate), /*fresh=*/true);
    }
    if (segment.kind == SegmentKind::update) {
      builder.begin_segment(SegmentKind::finish);
      Insertions insertions;
      for (const UpdatePiece& piece : trace.update_pieces)
        if (piece.kind == Kind::total || piece.kind == Kind::finish) append(insertions, segment.begin - 1, piece);
      builder.add({SegmentKind::finish, segment.begin, segment.begin}, insertions, /*fresh=*/true);
    }
  }
  return builder.finish();
}

}  // namespace

Trace update_in_backward(Trace trace) {
  const std::string obstacle = update_in_backward_obstacle(trace);
  check(obstacle.empty(), "update in backward: " + obstacle);
  if (trace.segment(SegmentKind::accumulate)) return update_in_last_micro_batch(std::move(trace));
  const Segment micro = *trace.segment(SegmentKind::micro);
  const bool norms_first = needs_norm_pass(trace);
  const Segment update = *trace.segment(SegmentKind::update);
  Insertions in_norms, in_micro = updates_within(trace, micro), in_update;
  if (norms_first) {
    in_micro.clear();
    for (const UpdatePiece& piece : trace.update_pieces)
      if (piece.kind == Kind::begin)
        append(in_norms, last_forward(trace, micro), piece);
      else if (piece.kind == Kind::norm)
        append(in_norms, last_touch(trace, micro, piece.gradient, piece.gradient), piece);
      else if (piece.kind == Kind::update)
        append(in_micro, last_touch(trace, micro, piece.gradient, piece.parameter), piece);
  }
  for (const UpdatePiece& piece : trace.update_pieces) {
    const bool before_updates = piece.kind == Kind::total || piece.kind == Kind::clip;
    if (norms_first && before_updates)
      append(in_norms, micro.end - 1, piece);
    else if (before_updates || piece.kind == Kind::finish)
      append(in_update, update.begin - 1, piece);
  }
  Builder builder(trace);
  for (const Segment& segment : std::vector<Segment>(trace.segments)) {
    if (segment.kind == SegmentKind::micro && norms_first) {
      builder.begin_segment(SegmentKind::norms);
      builder.add(segment, in_norms, /*fresh=*/true);
    }
    builder.begin_segment(segment.kind);
    if (segment.kind == SegmentKind::update)
      builder.add({segment.kind, segment.begin, segment.begin}, in_update, false);
    else
      builder.add(segment, segment.kind == SegmentKind::micro ? in_micro : Insertions{}, false);
  }
  return builder.finish();
}

Trace sink_updates(Trace trace) {
  std::vector<int32_t> last_reader(trace.buffers.size(), -1);  // by buffer, in the current segment, without updates
  for (const Segment& segment : trace.segments) {
    const auto is_update = [&](int32_t i) { return trace.ops[i].phase == Phase::update; };
    std::fill(last_reader.begin(), last_reader.end(), -1);
    for (int32_t i = segment.begin; i < segment.end; ++i)
      if (!is_update(i))
        for_each_view(trace.ops[i], [&](const View& view, bool writes) {
          if (!writes) last_reader[view.buffer] = i;
        });
    std::vector<std::pair<int32_t, int32_t>> runs;                         // runs of updates to move, each [begin, end)
    std::vector<std::vector<size_t>> behind(segment.end - segment.begin);  // by op: the runs to place after it
    for (int32_t begin = segment.begin, end; begin < segment.end; begin = end) {
      end = begin + 1;
      if (!is_update(begin)) continue;
      while (end < segment.end && is_update(end)) ++end;
      int32_t last = end - 1;  // last reader of what the run writes
      for (int32_t i = begin; i < end; ++i)
        for_each_view(trace.ops[i], [&](const View& view, bool writes) {
          if (writes) last = std::max(last, last_reader[view.buffer]);
        });
      if (last < end) continue;
      behind[last - segment.begin].push_back(runs.size());
      runs.emplace_back(begin, end);
    }
    if (runs.empty()) continue;
    std::vector<Op> settled;
    settled.reserve(segment.end - segment.begin);
    const auto move_over = [&](int32_t i) { settled.push_back(std::move(trace.ops[i])); };
    size_t next = 0;  // next run to skip
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      if (next < runs.size() && runs[next].first == i) {
        i = runs[next++].second - 1;
        continue;
      }
      move_over(i);
      for (size_t run : behind[i - segment.begin])
        for (int32_t each = runs[run].first; each < runs[run].second; ++each) move_over(each);
    }
    std::move(settled.begin(), settled.end(), trace.ops.begin() + segment.begin);
  }
  return trace;
}

}  // namespace plimsoll
