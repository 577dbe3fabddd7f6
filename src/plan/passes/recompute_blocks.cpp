#include "plan/passes/recompute_blocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "plan/passes/rewrite.h"

namespace plimsoll {
namespace {

// "encoder.layers.3.norm" -> "encoder.layers.3"; "" when no part of the path is a number.
std::string block_of(const std::string& path) {
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (std::all_of(path.begin() + begin, path.begin() + end, [](char c) { return c >= '0' && c <= '9'; }))
      return path.substr(0, end);
    begin = end + 1;
  }
  return "";
}

// A block's forward ops, one after the other: [begin, end).
struct Run {
  int32_t begin;
  int32_t end;
};

std::vector<Run> runs_of(const Trace& trace, const Segment& segment) {
  std::vector<std::string> blocks;
  for (const std::string& module : trace.modules) blocks.push_back(block_of(module));
  std::vector<Run> runs;
  std::string current;
  for (int32_t i = segment.begin; i < segment.end; ++i) {
    const Op& op = trace.ops[i];
    const std::string& block = op.phase == Phase::forward ? blocks[op.module] : blocks[0];
    if (!block.empty() && block == current) {
      runs.back().end = i + 1;
    } else {
      if (!block.empty()) runs.push_back({i, i + 1});
      current = block;
    }
  }
  return runs;
}

// Ops that read and write each buffer, in order.
struct Uses {
  std::vector<std::vector<int32_t>> reads, writes;
  explicit Uses(const Trace& trace) : reads(trace.buffers.size()), writes(trace.buffers.size()) {
    for (int32_t i = 0; i < static_cast<int32_t>(trace.ops.size()); ++i) {
      const Op& op = trace.ops[i];
      // An argument written in place is read as well, unless this is the buffer's first write.
      for (const Argument& argument : op.arguments) {
        for (const View& view : argument.views) {
          if (view.buffer == kNoBuffer) continue;
          if (!argument.written || !writes[view.buffer].empty()) reads[view.buffer].push_back(i);
          if (argument.written) writes[view.buffer].push_back(i);
        }
      }
      for (const View& view : op.results)
        if (view.buffer != kNoBuffer) writes[view.buffer].push_back(i);
    }
  }
  bool written_between(BufferId buffer, int32_t after, int32_t before) const {
    const auto& list = writes[buffer];
    const auto next = std::upper_bound(list.begin(), list.end(), after);
    return next != list.end() && *next < before;
  }
};

// What to insert for one run, and where.
struct Recomputation {
  int32_t before;            // old op index
  std::vector<int32_t> ops;  // old op indices to run again
  std::vector<BufferId> dropped;
};

class RunAnalysis {
 public:
  RunAnalysis(const Trace& trace, const Segment& segment, const Uses& uses, Run run)
      : trace_(trace), segment_(segment), uses_(uses), run_(run) {}

  std::optional<Recomputation> analyse() {
    find_candidates();
    while (!dropped_.empty()) {
      first_use_ = segment_.end;
      for (BufferId buffer : dropped_) first_use_ = std::min(first_use_, first_backward_use(buffer));
      if (const auto slice = find_slice()) {
        Recomputation result{first_use_, {slice->begin(), slice->end()}, {dropped_.begin(), dropped_.end()}};
        std::sort(result.ops.begin(), result.ops.end());
        std::sort(result.dropped.begin(), result.dropped.end());
        return result;
      }
    }
    return std::nullopt;
  }

 private:
  bool inside(int32_t op) const { return run_.begin <= op && op < run_.end; }

  bool internal(BufferId buffer) const {
    const Buffer& description = trace_.buffers[buffer];
    if (description.persistent || description.output) return false;
    const auto& writes = uses_.writes[buffer];
    return !writes.empty() && inside(writes.front()) && inside(writes.back());
  }

  int32_t first_backward_use(BufferId buffer) const {
    const auto& reads = uses_.reads[buffer];
    const auto found = std::lower_bound(reads.begin(), reads.end(), run_.end);
    return found == reads.end() ? segment_.end : *found;
  }

  // Made inside, and next used by backward: not by the blocks that follow.
  void find_candidates() {
    for (int32_t i = run_.begin; i < run_.end; ++i) {
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        if (!written || !internal(view.buffer)) return;
        const int32_t use = first_backward_use(view.buffer);
        if (use < segment_.end && trace_.ops[use].phase == Phase::backward) dropped_.insert(view.buffer);
      });
    }
  }

  // The ops that rebuild every dropped buffer, or nothing after taking a buffer that cannot be rebuilt off the list.
  std::optional<std::unordered_set<int32_t>> find_slice() {
    std::unordered_set<int32_t> slice;
    std::unordered_set<BufferId> rebuilt(dropped_.begin(), dropped_.end());
    std::vector<BufferId> work(dropped_.begin(), dropped_.end());
    while (!work.empty()) {
      const BufferId buffer = work.back();
      work.pop_back();
      for (int32_t index : uses_.writes[buffer]) {
        if (!slice.insert(index).second) continue;
        if (!can_run_again(index, rebuilt, work)) {
          give_up(index);
          return std::nullopt;
        }
      }
    }
    return slice;
  }

  bool can_run_again(int32_t index, std::unordered_set<BufferId>& rebuilt, std::vector<BufferId>& work) {
    bool possible = true;
    const auto visit = [&](const View& view, bool written) {
      const BufferId buffer = view.buffer;
      if (written) {
        // What it writes is written anew, so it must be the block's own.
        if (!internal(buffer))
          possible = false;
        else if (rebuilt.insert(buffer).second)
          work.push_back(buffer);
      } else if (!rebuilt.contains(buffer)) {
        if (internal(buffer) && !kept(buffer)) {
          rebuilt.insert(buffer);
          work.push_back(buffer);
        } else if (uses_.written_between(buffer, index, first_use_)) {
          possible = false;
        }
      }
    };
    for_each_view(trace_.ops[index], visit);
    return possible;
  }

  // Alive at the recomputation anyway: an output of the block, or something taken off the list.
  bool kept(BufferId buffer) const { return !dropped_.contains(buffer) && first_backward_use(buffer) < segment_.end; }

  // Nothing that depends on op `index` can be rebuilt: keep all dropped buffers that its results lead to.
  void give_up(int32_t index) {
    std::unordered_set<BufferId> tainted;
    for_each_view(trace_.ops[index], [&](const View& view, bool written) {
      if (written) tainted.insert(view.buffer);
    });
    size_t erased = 0;
    for (BufferId buffer : tainted) erased += dropped_.erase(buffer);
    if (erased > 0) return;
    // Its results are intermediates: keep what is computed from them.
    for (int32_t i = index + 1; i < run_.end; ++i) {
      bool reads = false;
      for_each_view(trace_.ops[i],
                    [&](const View& view, bool written) { reads |= !written && tainted.contains(view.buffer); });
      if (!reads) continue;
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        if (written) tainted.insert(view.buffer);
      });
    }
    for (BufferId buffer : tainted) dropped_.erase(buffer);
  }

  const Trace& trace_;
  const Segment& segment_;
  const Uses& uses_;
  const Run run_;
  int32_t first_use_ = 0;
  std::unordered_set<BufferId> dropped_;
};

using BufferMap = std::unordered_map<BufferId, BufferId>;

void rename(Op& op, const BufferMap& names) {
  const auto apply = [&](View& view) {
    if (const auto found = names.find(view.buffer); found != names.end()) view.buffer = found->second;
  };
  for (Argument& argument : op.arguments)
    for (View& view : argument.views) apply(view);
  for (View& view : op.results) apply(view);
}

}  // namespace

int64_t count_blocks(const Trace& trace) {
  const Segment* segment = trace.segment("micro");
  return segment ? static_cast<int64_t>(runs_of(trace, *segment).size()) : 0;
}

Trace recompute_blocks(Trace trace, int64_t blocks) {
  const Uses uses(trace);
  std::map<int32_t, std::vector<Recomputation>> insertions;
  for (const Segment& segment : trace.segments) {
    if (segment.name != "micro" && segment.name != "accumulate") continue;
    const std::vector<Run> runs = runs_of(trace, segment);
    for (size_t i = 0; i < runs.size() && static_cast<int64_t>(i) < blocks; ++i)
      if (const auto found = RunAnalysis(trace, segment, uses, runs[i]).analyse())
        insertions[found->before].push_back(*found);
  }
  if (insertions.empty()) return trace;

  const std::vector<Op> old_ops = trace.ops;
  TraceRewriter rewriter(trace);
  BufferMap names;
  for (int32_t i = 0; i < static_cast<int32_t>(old_ops.size()); ++i) {
    if (const auto here = insertions.find(i); here != insertions.end()) {
      for (const Recomputation& recomputation : here->second) {
        BufferMap fresh;
        for (int32_t index : recomputation.ops) {
          Op op = old_ops[index];
          for_each_view(op, [&](const View& view, bool written) {
            if (!written || fresh.contains(view.buffer)) return;
            Buffer buffer = trace.buffers[view.buffer];
            buffer.role = Role::temporary;
            fresh[view.buffer] = rewriter.add_buffer(std::move(buffer));
          });
          rename(op, fresh);
          op.recomputed = true;
          rewriter.insert(std::move(op), i);
        }
        for (BufferId buffer : recomputation.dropped) names[buffer] = fresh.at(buffer);
      }
    }
    if (old_ops[i].phase == Phase::backward) {
      Op op = old_ops[i];
      rename(op, names);
      rewriter.replace(i, std::move(op));
    } else {
      rewriter.keep(i);
    }
  }
  return rewriter.finish();
}

}  // namespace plimsoll
