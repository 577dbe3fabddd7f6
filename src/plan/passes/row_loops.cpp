#include <algorithm>
#include <utility>

#include "plan/passes/row_region.h"

namespace plimsoll {
namespace {

// Ops, at most, that wait for a loop: those of a loss, and not layers that read its result.
constexpr size_t kMaxDelayedOps = 200;

// Assigns the ops of a region to loops, and finds where the loops run.
class LoopBuilder {
 public:
  LoopBuilder(const Trace& trace, RowRegion region, std::set<int32_t> narrow)
      : trace_(trace),
        segment_(region.segment),
        head_(region.head),
        region_(std::move(region)),
        narrow_(std::move(narrow)),
        accesses_(trace.buffers.size()) {
    for (int32_t i = segment_.begin; i < segment_.end; ++i)
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        accesses_[view.buffer].push_back({i, written});
      });
  }

  // Puts the ops into loops: forward and backward together, if possible.
  std::optional<RowRegion> build() {
    const RowRegion found = region_;
    const std::set<int32_t> narrow = narrow_;
    for (const bool apart : {false, true}) {
      apart_ = apart;
      if (make_loops()) return is_loss() ? std::optional(std::move(region_)) : std::nullopt;
      region_ = found;
      narrow_ = narrow;
    }
    return std::nullopt;
  }

 private:
  struct Access {
    int32_t op;
    bool written;
  };

  void set_levels() {
    std::vector<int> by_region(trace_.buffers.size(), -1), by_others(trace_.buffers.size(), 0);
    for (int32_t i = segment_.begin; i < segment_.end; ++i) {
      const auto found = region_.ops.find(i);
      const bool inside = found != region_.ops.end();
      const auto is_unused = [&](size_t operand) { return inside && found->second.rule.unused[operand]; };
      int level = 0;
      size_t number = 0;
      for_each_view(trace_.ops[i], [&](const View& view, bool) {
        if (is_unused(number++)) return;
        level = std::max({level, by_others[view.buffer],
                          by_region[view.buffer] < 0 ? 0 : by_region[view.buffer] + (inside ? 0 : 1)});
      });
      if (inside && apart_ && trace_.ops[i].phase == Phase::backward) level = std::max(level, forward_levels_);
      if (inside) found->second.level = level;
      number = 0;
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        const size_t operand = number++;
        if (!written) return;
        if (!inside || is_unused(operand))
          by_others[view.buffer] = std::max(by_others[view.buffer], level);
        else if (!region_.layouts.contains(view.buffer) ||
                 lacks_rows(found->second.rows, found->second.rule.labels[operand]))
          by_others[view.buffer] = std::max(by_others[view.buffer], level + 1);
        else
          by_region[view.buffer] = std::max(by_region[view.buffer], level);
      });
    }
  }

  // Removes the ops on narrow values that no other op of the same level needs: they run once, on whole values.
  bool drop_narrow() {
    std::map<BufferId, std::set<int>> readers;  // levels of the ops behind that read each buffer
    bool dropped = false;
    for (int32_t i = segment_.end; i-- > segment_.begin;) {
      const auto found = region_.ops.find(i);
      if (found == region_.ops.end()) continue;
      if (narrow_.contains(i)) {
        bool kept = false;
        for_each_view(trace_.ops[i], [&](const View& view, bool written) {
          kept |= written && readers[view.buffer].contains(found->second.level);
        });
        if (!kept) {
          narrow_.erase(i);
          region_.ops.erase(found);
          dropped = true;
          continue;
        }
      }
      for_each_view(trace_.ops[i], [&](const View& view, bool) { readers[view.buffer].insert(found->second.level); });
    }
    return dropped;
  }

  // Returns the ops that the loop of `level` runs: those that write whole values at this level, and all ops that make
  // the chunked values that they read.
  std::optional<std::vector<int32_t>> ops_of(int level) const {
    std::set<int32_t> needed;
    std::vector<int32_t> work;
    for (const auto& [index, op] : region_.ops)
      if (op.level == level && writes_whole(index)) work.push_back(index);
    while (!work.empty()) {
      const int32_t index = work.back();
      work.pop_back();
      if (!needed.insert(index).second) continue;
      if (region_.ops.at(index).level < level && writes_whole(index)) return std::nullopt;
      for_each_view(trace_.ops[index], [&](const View& view, bool) {
        if (!region_.chunked.contains(view.buffer)) return;
        for (const Access& access : accesses_[view.buffer])
          if (access.written && access.op < index) work.push_back(access.op);
      });
    }
    return std::vector<int32_t>(needed.begin(), needed.end());
  }

  bool writes_whole(int32_t index) const {
    bool writes = false;
    for_each_view(trace_.ops[index],
                  [&](const View& view, bool written) { writes |= written && !region_.chunked.contains(view.buffer); });
    return writes;
  }

  // Finds where the loop of `level` may run. Other ops of the segment that it depends on stay before it, and those that
  // depend on it behind, or are delayed.
  bool place(RowLoop& loop, int level, int32_t first_backward) const {
    int32_t earliest = segment_.begin, latest = segment_.end, last = segment_.begin;
    std::set<int32_t> before;  // ops that the loop depends on
    std::set<int32_t> behind;  // ops that depend on the loop
    for (const int32_t index : loop.ops) {
      const RegionOp& op = region_.ops.at(index);
      if (op.level == level) {
        last = std::max(last, index + 1);
        if (trace_.ops[index].phase == Phase::backward) loop.phase = Phase::backward;
      }
      bool possible = true;
      for_each_view(trace_.ops[index], [&](const View& view, bool written) {
        if (region_.chunked.contains(view.buffer)) return;
        for (const Access& access : accesses_[view.buffer]) {
          if (!written && !access.written) continue;
          const auto other = region_.ops.find(access.op);
          if (other == region_.ops.end()) {
            (access.op < index ? before : behind).insert(access.op);
          } else if (other->second.level != level) {
            // Loops run by level. An op that is repeated reads what it read first.
            possible &= (access.op < index) == (other->second.level < level);
          }
        }
      });
      if (!possible) return false;
    }
    if (!before.empty()) earliest = *before.rbegin() + 1;
    if (!behind.empty()) latest = *behind.begin();
    if (!region_.loops.empty()) earliest = std::max(earliest, region_.loops.back().position);
    if (loop.phase == Phase::backward) earliest = std::max(earliest, first_backward);
    loop.position = std::max(earliest, std::min(last, latest));
    if (loop.position > first_backward) loop.phase = Phase::backward;
    return earliest <= latest || delay(loop, level, before, behind);
  }

  // Delays the ops before the loop's position that depend on it, and those that depend on a delayed op.
  bool delay(RowLoop& loop, int level, const std::set<int32_t>& before, const std::set<int32_t>& behind) const {
    std::map<BufferId, bool> used;  // by delayed ops; true: written
    for (int32_t i = *behind.begin(); i < loop.position; ++i) {
      if (region_.ops.contains(i)) continue;
      bool delayed = behind.contains(i), possible = true;
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        const auto found = used.find(view.buffer);
        delayed |= found != used.end() && (written || found->second);
      });
      if (!delayed) continue;
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        used[view.buffer] |= written;
        for (const Access& access : accesses_[view.buffer]) {
          const auto other = region_.ops.find(access.op);
          if (other != region_.ops.end() && other->second.level > level && access.op < i && (written || access.written))
            possible = false;
        }
      });
      const bool twice = std::ranges::any_of(
          region_.loops, [&](const RowLoop& each) { return std::ranges::binary_search(each.delayed, i); });
      if (!possible || twice || before.contains(i) || loop.delayed.size() == kMaxDelayedOps) return false;
      loop.delayed.push_back(i);
    }
    return true;
  }

  bool make_loops() {
    forward_levels_ = 0;
    set_levels();
    for (int i = 0; i < 100 && drop_narrow(); ++i) set_levels();
    if (apart_) {
      for (const auto& [index, op] : region_.ops)
        if (trace_.ops[index].phase != Phase::backward) forward_levels_ = std::max(forward_levels_, op.level + 1);
      set_levels();
    }
    int levels = 0;
    for (const auto& [index, op] : region_.ops) levels = std::max(levels, op.level + 1);
    int32_t first_backward = segment_.begin;
    while (first_backward < segment_.end && trace_.ops[first_backward].phase != Phase::backward) ++first_backward;
    for (int level = 0; level < levels; ++level) {
      const auto ops = ops_of(level);
      if (!ops) return false;
      RowLoop loop;
      loop.ops = *ops;
      loop.phase = trace_.ops[head_].phase;
      if (!loop.ops.empty() && !place(loop, level, first_backward)) return false;
      if (loop.ops.empty()) loop.position = region_.loops.empty() ? segment_.begin : region_.loops.back().position;
      region_.loops.push_back(std::move(loop));
    }
    return true;
  }

  // Returns whether forward ends with values with few elements for each row. Otherwise the head is a layer of a model,
  // whose results other layers read.
  bool is_loss() const {
    bool ends = false;
    for (const auto& [index, op] : region_.ops) {
      if (trace_.ops[index].phase == Phase::backward || !writes_whole(index)) continue;
      if (op.rule.product) return false;
      ends = true;
    }
    return ends;
  }

  const Trace& trace_;
  const Segment segment_;
  const int32_t head_;
  RowRegion region_;
  std::set<int32_t> narrow_;
  std::vector<std::vector<Access>> accesses_;  // by buffer: of ops of the segment
  bool apart_ = false;                         // forward and backward have loops of their own
  int forward_levels_ = 0;                     // if so: the first level of backward
};

}  // namespace

std::optional<RowRegion> with_loops(const Trace& trace, RowRegion region, std::set<int32_t> narrow) {
  return LoopBuilder(trace, std::move(region), std::move(narrow)).build();
}

}  // namespace plimsoll
