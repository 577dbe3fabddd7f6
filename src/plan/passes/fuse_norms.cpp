#include "plan/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "plan/passes/rewrite.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

class FuseNorms {
 public:
  FuseNorms(Trace trace, const FusionRules& fusion_rules, const CostModel& cost, const WorkspaceModel& workspace,
            const MergingParameters& limits)
      : trace_(std::move(trace)),
        fusion_rules_(fusion_rules),
        cost_(cost),
        workspace_(workspace),
        max_distance_(limits.max_distance),
        lifetimes_(lifetimes_of(trace_)),
        live_(transient_bytes_by_op(trace_, lifetimes_)),
        peak_(live_.empty() ? 0 : *std::ranges::max_element(live_)),
        uses_(uses_of(trace_)) {
    cost_.measured_seconds = nullptr;  // no fused op was timed, so all ops are compared by the same rates
  }

  Trace run() {
    for (const Segment& segment : trace_.segments) {
      if (segment.kind == SegmentKind::initialize) continue;
      writers_.clear();
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        visit(i);
        if (gone_.contains(i)) continue;
        for_each_view(at(i), [&](const View& view, bool written) {
          if (written) writers_[view.buffer] = i;
        });
      }
    }
    return with_merged(trace_, std::move(fused_), gone_);
  }

 private:
  struct Pair {
    int32_t first, second;
    int32_t place;  // the op that is replaced by the merged op: `first` or `second`
    Op op;
    std::set<BufferId> gone;  // buffers that only the two separate ops use
    std::map<int32_t, int64_t> more_live;
  };

  // Returns the current op at `index`.
  const Op& at(int32_t index) const {
    const auto found = fused_.find(index);
    return found == fused_.end() ? trace_.ops[index] : found->second;
  }

  // Returns whether op `index` may be moved.
  bool is_movable(int32_t index) const {
    const Op& op = trace_.ops[index];
    return op.copy == CopyStage::none && !op.on_host && op.random_id < 0 && !gone_.contains(index);
  }
  // Returns whether op `index` is unchanged and may be moved.
  bool is_free(int32_t index) const { return is_movable(index) && !fused_.contains(index); }

  // Merges ops into op `index`, or it into one of them, until there is none left.
  void visit(int32_t index) {
    if (is_free(index))
      while (merge_one(index) && !gone_.contains(index)) {
      }
  }

  bool merge_one(int32_t index) {
    std::set<int32_t> writers;
    for_each_view(at(index), [&](const View& view, bool written) {
      if (const auto found = writers_.find(view.buffer); !written && found != writers_.end())
        writers.insert(found->second);
    });
    for (const int32_t writer : writers) {
      if (writer == index) continue;
      std::optional<Pair> pair = pair_of(writer, index);
      if (!pair || !(fusion_rules_.all || gains(*pair))) continue;
      take(std::move(*pair));
      return true;
    }
    return false;
  }

  std::optional<Pair> pair_of(int32_t first, int32_t second) const {
    const Op &a = at(first), &b = at(second);
    if (!is_movable(first) || second - first > max_distance_) return std::nullopt;
    if ((a.phase == Phase::update) != (b.phase == Phase::update)) return std::nullopt;
    std::optional<Op> op = fusion_rules_.pair(a, b);
    if (!op || belongs_to_chain(first)) return std::nullopt;
    // A merged op stays where it is.
    const bool down = !fused_.contains(first) && passes(first, first + 1, second);
    if (!down && (fused_.contains(second) || !passes(second, first + 1, second))) return std::nullopt;
    Pair pair{first, second, down ? second : first, std::move(*op), {}, {}};
    std::map<BufferId, int32_t> touches;
    for (const Op* each : {&a, &b}) for_each_buffer(*each, [&](BufferId buffer) { ++touches[buffer]; });
    for_each_buffer(pair.op, [&](BufferId buffer) { touches.erase(buffer); });
    for (const auto& [buffer, count] : touches) {
      if (uses_[buffer] != count) return std::nullopt;  // another op needs it
      pair.gone.insert(buffer);
    }
    pair.op.phase = trace_.ops[pair.place].phase;
    pair.op.module = trace_.ops[pair.place].module;
    pair.op.recomputed = a.recomputed && b.recomputed;
    pair.op.flops = a.flops + b.flops;
    pair.op.bytes_moved = 0;
    for_each_view(pair.op,
                  [&](const View& view, bool) { pair.op.bytes_moved += view.elements() * element_bytes(view.dtype); });
    if (workspace_) pair.op.workspace_bytes = placed_bytes(trace_, workspace_(pair.op).value_or(0));
    pair.more_live = more_live(pair);
    return pair;
  }

  // Returns whether op `index` may swap places with the ops [begin, end).
  bool passes(int32_t index, int32_t begin, int32_t end) const {
    std::set<BufferId> used, written;
    for_each_view(at(index), [&](const View& view, bool writes) { (writes ? written : used).insert(view.buffer); });
    bool free = true;
    for (int32_t i = begin; i < end && free; ++i) {
      if (gone_.contains(i)) continue;
      // Between a copy's start and its wait no op may use either buffer. A wait writes nothing by itself, but the
      // copied bytes are valid only after it.
      const bool copies = at(i).copy != CopyStage::none;
      for_each_view(at(i), [&](const View& view, bool writes) {
        free = free && !written.contains(view.buffer) && !((writes || copies) && used.contains(view.buffer));
      });
    }
    return free;
  }

  // Returns whether the op reads a value that a pointwise op makes only for it. fuse_pointwise then saves writing and
  // reading it.
  bool belongs_to_chain(int32_t index) const {
    if (!fusion_rules_.translate(trace_.ops[index])) return false;
    bool chained = false;
    for_each_view(trace_.ops[index], [&](const View& view, bool written) {
      const auto writer = writers_.find(view.buffer);
      if (written || chained || uses_[view.buffer] != 2 || writer == writers_.end() || writer->second >= index) return;
      chained = is_free(writer->second) && fusion_rules_.translate(trace_.ops[writer->second]).has_value();
    });
    return chained;
  }

  // Returns the additional live bytes at each op of the range; the moved op is no longer there. If it moves up, its
  // inputs could die earlier, which is not counted.
  std::map<int32_t, int64_t> more_live(const Pair& pair) const {
    const bool down = pair.place == pair.second;
    std::map<int32_t, int64_t> more;
    std::set<BufferId> read, made, gone = pair.gone;
    const int32_t mover = down ? pair.first : pair.second;
    for_each_view(at(mover), [&](const View& view, bool written) {
      if (trace_.buffers[view.buffer].persistent || gone.contains(view.buffer)) return;
      if (lifetimes_[view.buffer].birth == mover)
        made.insert(view.buffer);
      else if (!written)
        read.insert(view.buffer);
    });
    const auto bytes = [&](BufferId buffer) { return placed_bytes(trace_, trace_.buffers[buffer].bytes); };
    for (int32_t i = pair.first; i <= pair.second; ++i) {
      if (gone_.contains(i) || i == mover) continue;
      int64_t& sum = more[i];
      const auto change = [&](BufferId buffer, bool is) {
        const bool was = lifetimes_[buffer].live_at(i);
        sum += (is ? bytes(buffer) : 0) - (was ? bytes(buffer) : 0);
      };
      for (const BufferId buffer : gone) change(buffer, false);
      for (const BufferId buffer : made) change(buffer, !down || i == pair.second);
      for (const BufferId buffer : read) change(buffer, true);
      if (i == pair.place) sum += pair.op.workspace_bytes - at(i).workspace_bytes;
    }
    return more;
  }

  bool gains(const Pair& pair) const {
    const double before = seconds_of(cost_, at(pair.first)) + seconds_of(cost_, at(pair.second));
    if (seconds_of(cost_, pair.op) >= before) return false;
    const int64_t allowed =
        std::max(peak_, *std::max_element(live_.begin() + pair.first, live_.begin() + pair.second + 1));
    return std::ranges::all_of(pair.more_live,
                               [&](const auto& entry) { return live_[entry.first] + entry.second <= allowed; });
  }

  void take(Pair pair) {
    for (const auto& [index, bytes] : pair.more_live) live_[index] += bytes;
    const int32_t mover = pair.place == pair.second ? pair.first : pair.second;
    for_each_view(trace_.ops[mover], [&](const View& view, bool) {
      if (trace_.buffers[view.buffer].persistent) return;
      Lifetime& lifetime = lifetimes_[view.buffer];
      if (lifetime.birth == mover) lifetime.birth = pair.place;
      lifetime.death = std::max(lifetime.death, pair.place + 1);
    });
    for_each_view(pair.op, [&](const View& view, bool written) {
      if (written) writers_[view.buffer] = pair.place;
    });
    gone_.insert(mover);
    fused_[pair.place] = std::move(pair.op);
  }

  Trace trace_;
  const FusionRules& fusion_rules_;
  CostModel cost_;
  const WorkspaceModel& workspace_;
  const int32_t max_distance_;
  std::vector<Lifetime> lifetimes_;
  std::vector<int64_t> live_;  // live bytes by op
  int64_t peak_;
  std::vector<int32_t> uses_;            // by buffer
  std::map<BufferId, int32_t> writers_;  // by buffer: the last op of the segment so far that writes it
  std::map<int32_t, Op> fused_;          // by the op that each replaces
  std::set<int32_t> gone_;
};

}  // namespace

Trace fuse_norms(Trace trace, const FusionRules& fusion_rules, const CostModel& cost, const WorkspaceModel& workspace,
                 const MergingParameters& limits) {
  if (!fusion_rules.pair) return trace;
  return FuseNorms(std::move(trace), fusion_rules, cost, workspace, limits).run();
}

}  // namespace plimsoll
