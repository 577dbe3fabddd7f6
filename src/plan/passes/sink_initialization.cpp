#include "plan/passes/passes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

class SinkInitialization {
 public:
  explicit SinkInitialization(Trace& trace) : trace_(trace) {}

  void run(const Segment& segment) {
    const auto count = static_cast<size_t>(segment.end - segment.begin);
    ops_.assign(std::make_move_iterator(trace_.ops.begin() + segment.begin),
                std::make_move_iterator(trace_.ops.begin() + segment.end));
    waiting_.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      bool lasting = false;
      for_each_view(ops_[i], [&](const View& view, bool written) {
        const Buffer& buffer = trace_.buffers[view.buffer];
        lasting |= written && (buffer.persistent || buffer.output);
      });
      if (lasting) {
        emit(i);
        continue;
      }
      waiting_[i] = true;
      for_each_view(ops_[i], [&](const View& view, bool) { waiting_for_[view.buffer].push_back(i); });
    }
    for (size_t i = 0; i < count; ++i)
      if (waiting_[i]) emit(i);
    std::ranges::move(done_, trace_.ops.begin() + segment.begin);
  }

 private:
  // Emits op `index` after all earlier waiting ops that use one of its buffers. So each reader finds the same bytes as
  // before, and no writer runs before an earlier reader.
  void emit(size_t index) {
    // An explicit stack instead of recursion: a chain of ops on one buffer may be long.
    std::vector<std::pair<size_t, bool>> stack = {{index, false}};
    while (!stack.empty()) {
      auto& [op, expanded] = stack.back();
      if (expanded) {
        const size_t ready = op;
        stack.pop_back();
        if (ready != index && !waiting_[ready]) continue;  // two ops required it
        waiting_[ready] = false;
        done_.push_back(std::move(ops_[ready]));
        continue;
      }
      expanded = true;
      const std::vector<size_t> first = before(op);
      for (size_t i = first.size(); i-- > 0;) stack.emplace_back(first[i], false);
    }
  }

  std::vector<size_t> before(size_t index) {
    std::vector<size_t> first;
    for_each_view(ops_[index], [&](const View& view, bool) {
      const auto found = waiting_for_.find(view.buffer);
      if (found == waiting_for_.end()) return;
      std::erase_if(found->second, [&](size_t each) { return !waiting_[each]; });
      for (size_t each : found->second)
        if (each < index) first.push_back(each);
    });
    std::ranges::sort(first);
    first.erase(std::unique(first.begin(), first.end()), first.end());
    return first;
  }

  Trace& trace_;
  std::vector<Op> ops_, done_;
  std::vector<bool> waiting_;
  std::unordered_map<BufferId, std::vector<size_t>> waiting_for_;  // waiting ops, by a buffer that they use
};

}  // namespace

Trace sink_initialization(Trace trace) {
  if (const Segment* segment = trace.segment(SegmentKind::initialize)) SinkInitialization(trace).run(Segment(*segment));
  return trace;
}

}  // namespace plimsoll
