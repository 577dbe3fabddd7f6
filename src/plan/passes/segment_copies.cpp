#include "plan/passes/segment_copies.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {

CopySchedule::CopySchedule(const CostModel& cost, const Trace& trace, const Segment& segment,
                           const std::vector<int64_t>& live, int64_t limit)
    : cost_(cost),
      begin_(segment.begin),
      end_(segment.end),
      limit_(limit),
      live_(live.begin() + segment.begin, live.begin() + segment.end) {
  double clock = 0;
  for (int32_t op = begin_; op < end_; ++op) {
    start_.push_back(clock);
    seconds_.push_back(seconds_of(cost, trace.ops[op]));
    clock += seconds_.back();
  }
  start_.push_back(clock);
}

double CopySchedule::copy_time(int64_t bytes, Memory offload_memory) const {
  return cost_.copies_overlap ? copy_seconds(cost_, bytes, offload_memory)
                              : 0;  // without overlap a copy is done when its start is
}

void CopySchedule::place(std::vector<CopyOut>& copies) {
  std::vector<int32_t> order(copies.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return copies[a].ready < copies[b].ready; });
  struct Pending {
    int32_t copy;
    double done;
  };
  std::deque<Pending> pending;  // by the time at which they are done
  double clock = 0, link_free = 0;
  int64_t extra = 0;  // bytes of pending copies whose source no op needs any more
  size_t next = 0;
  const auto wait_for_first = [&](int32_t op) {
    clock = std::max(clock, pending.front().done);
    CopyOut& copy = copies[pending.front().copy];
    copy.wait = std::max(op, copy.last + 1);
    if (copy.last < op) extra -= copy.bytes;
    pending.pop_front();
  };
  std::vector<std::vector<int32_t>> ending(end_ - begin_ + 1);  // copies by the op after their last use
  for (size_t c = 0; c < copies.size(); ++c) ending[copies[c].last + 1 - begin_].push_back(static_cast<int32_t>(c));
  std::vector<char> waited(copies.size(), 0);
  for (int32_t op = begin_; op <= end_; ++op) {
    for (; next < order.size() && copies[order[next]].ready <= op; ++next) {
      CopyOut& copy = copies[order[next]];
      copy.start = op;
      link_free = std::max(link_free, clock) + copy_time(copy.bytes, copy.to);
      pending.push_back({order[next], link_free});
    }
    for (int32_t c : ending[op - begin_])
      if (!waited[c]) extra += copies[c].bytes;
    const auto first_is = [&](auto&& condition) { return !pending.empty() && condition(pending.front()); };
    const auto release = [&] {
      waited[pending.front().copy] = 1;
      wait_for_first(op);
    };
    // Copies that are done by now, and copies that must be done by now.
    while (first_is([&](const Pending& first) { return first.done <= clock && copies[first.copy].last < op; }))
      release();
    while (std::any_of(pending.begin(), pending.end(),
                       [&](const Pending& each) { return copies[each.copy].latest <= op; }))
      release();
    if (op == end_) break;
    // If live bytes exceed the limit, wait as long as that frees any.
    while (live_[op - begin_] + extra > limit_ && extra > 0) release();
    live_[op - begin_] += extra;
    clock += seconds_[op - begin_];
  }
}

void CopySchedule::place(std::vector<CopyIn>& copies) {
  std::vector<int32_t> order(copies.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return copies[a].need > copies[b].need; });
  double link_free = std::numeric_limits<double>::infinity();  // seconds, from the end backward
  std::vector<double> latest(copies.size());
  for (int32_t index : order) {
    const CopyIn& copy = copies[index];
    link_free = std::min(link_free, start_[copy.need - begin_]) - copy_time(copy.bytes, copy.from);
    latest[index] = link_free;
  }
  // The link does copies in the order of their starts. No copy may delay one that is needed earlier.
  int32_t before = begin_;
  std::reverse(order.begin(), order.end());
  for (int32_t index : order) {
    CopyIn& copy = copies[index];
    const int32_t earliest = std::min(copy.need, std::max(copy.earliest, before));
    copy.start = copy.need;
    while (copy.start > earliest && start_[copy.start - begin_] > latest[index] &&
           live_[copy.start - 1 - begin_] + copy.bytes <= limit_)
      --copy.start;
    before = copy.start;
    for (int32_t op = copy.start; op < copy.need; ++op) live_[op - begin_] += copy.bytes;
  }
}

int64_t CopySchedule::peak() const {
  int64_t peak = 0;
  for (int64_t bytes : live_) peak = std::max(peak, bytes);
  return peak;
}

namespace {

// Largest number of host ops that have host copies at the same time: double buffering. The copies to the host for host
// op k start after host op k - kHostOpsAhead, except small shared ones. The copies back from host op k must be done
// before host op k + kHostOpsAhead.
constexpr size_t kHostOpsAhead = 2;
// Largest host copy, in bytes, that is shared: later host ops use the same copy until an op on the device writes its
// buffer. The step's scalars have such copies.
constexpr int64_t kSharedBytes = 4096;

bool is_set(const std::vector<char>& list, size_t index) {
  return index < list.size() && list[index];
}

}  // namespace

SegmentCopies::SegmentCopies(const Context& context, const Segment& segment) : segment_(segment) {
  for (int32_t i = segment.begin; i < segment.end; ++i) {
    const bool on_host = context.trace.ops[i].on_host;
    if (on_host) host_ops_.push_back(i);
    for_each_view(context.trace.ops[i], [&](const View& view, bool written) {
      const bool off_device = !context.trace.buffers[view.buffer].on_device();
      if (on_host) {
        if (off_device) host_uses_[view.buffer].push_back(i);
        return;
      }
      if (!off_device && !is_set(context.offloaded_saved, view.buffer)) return;
      auto& list = accesses_[view.buffer];
      if (!list.empty() && list.back().op == i)
        list.back().written = list.back().written || written;
      else
        list.push_back({i, written});
    });
  }
}

void SegmentCopies::plan(Context& context, TraceRewriter& rewriter, std::vector<int64_t> live) {
  for (const auto& [buffer, list] : accesses_) {
    if (context.trace.buffers[buffer].on_device())
      plan_saved_value(context, rewriter, buffer, live);
    else
      plan_resident_uses(context, rewriter, buffer, live);
  }
  plan_host_operands(context, rewriter);
  schedule_copies(context, live);
  for (const Swap& swap : swaps_) by_buffer_[swap.buffer].push_back(&swap);
  for (int32_t op : host_ops_)
    for_each_view(context.trace.ops[op], [&](const View& view, bool written) {
      if (written) context.written_before[view.buffer] = 1;
    });
}

// Plans the offload interval of a saved value: the longest time between two consecutive uses.
void SegmentCopies::plan_saved_value(const Context& context, TraceRewriter& rewriter, BufferId buffer,
                                     std::vector<int64_t>& live) {
  const Trace& trace = context.trace;
  const std::vector<Access>& list = accesses_[buffer];
  check(!trace.buffers[buffer].persistent, "only what is made in the segment can be moved away within it");
  if (start_seconds_.empty()) {
    double clock = 0;
    for (int32_t i = segment_.begin; i < segment_.end; ++i) {
      start_seconds_.push_back(clock);
      clock += seconds_of(context.cost, trace.ops[i]);
    }
  }
  size_t best = 0;
  double longest = 0;
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i].op <= list[i - 1].op + 1) continue;
    const double idle =
        start_seconds_[list[i].op - segment_.begin] - start_seconds_[list[i - 1].op + 1 - segment_.begin];
    if (best == 0 || idle > longest) {
      best = i;
      longest = idle;
    }
  }
  if (best == 0) return;  // no op runs between two consecutive uses
  int32_t last_write = list.front().op;
  for (size_t i = 0; i < best; ++i)
    if (list[i].written) last_write = list[i].op;
  const int64_t bytes = placed_bytes(trace, trace.buffers[buffer].bytes);
  const int32_t last_use = list[best - 1].op, next_use = list[best].op;
  Swap swap{buffer};
  swap.copies_out_first = true;
  swap.begin = next_use;
  swap.end = segment_.end;
  Buffer copy = trace.buffers[buffer];
  swap.device_copy = rewriter.add_buffer(copy);
  copy.memory = Memory::host;
  swap.offload_buffer = rewriter.add_buffer(std::move(copy));
  swap.out = static_cast<int>(copies_out_.size());
  copies_out_.push_back({bytes, last_write + 1, last_use, next_use, 0, 0});
  swap.in = static_cast<int>(copies_in_.size());
  copies_in_.push_back({bytes, next_use, next_use, 0});
  for (int32_t op = last_use + 1; op < next_use; ++op) live[op] -= bytes;
  swaps_.push_back(swap);
}

// Plans a residency interval for each cluster of device uses of an offloaded buffer. A host op that uses the buffer
// ends the interval, because it uses the stored data.
void SegmentCopies::plan_resident_uses(Context& context, TraceRewriter& rewriter, BufferId buffer,
                                       std::vector<int64_t>& live) {
  const Buffer description = context.trace.buffers[buffer];  // a copy, because buffers are added below
  const int64_t bytes = placed_bytes(context.trace, description.bytes);
  const std::vector<Access>& list = accesses_[buffer];
  const auto found = host_uses_.find(buffer);
  const std::vector<int32_t> host_uses = found == host_uses_.end() ? std::vector<int32_t>{} : found->second;
  const auto host_use_after = [&](int32_t op) { return std::upper_bound(host_uses.begin(), host_uses.end(), op); };
  for (size_t i = 0; i < list.size();) {
    size_t end = i;
    bool written = list[i].written;
    while (end + 1 < list.size() && list[end + 1].op - list[end].op <= kMaxUseGap &&
           host_use_after(list[end].op) == host_use_after(list[end + 1].op))
      written = list[++end].written || written;
    Swap swap{buffer};
    swap.begin = list[i].op;
    swap.end = list[end].op;
    swap.offload_buffer = buffer;
    // The copy out of the previous interval must be done before this interval begins.
    if (!swaps_.empty() && swaps_.back().buffer == buffer && swaps_.back().out >= 0) {
      int32_t& latest = copies_out_[swaps_.back().out].latest;
      latest = std::min(latest, swap.begin);
    }
    Buffer copy = description;
    copy.persistent = false;
    copy.memory = Memory::device;
    swap.device_copy = rewriter.add_buffer(std::move(copy));
    // If the interval begins with a write and no earlier op has written the buffer, there is nothing to copy in.
    if (context.written_before[buffer] || !list[i].written) {
      const auto after = std::lower_bound(host_uses.begin(), host_uses.end(), swap.begin);
      const int32_t earliest = after == host_uses.begin() ? segment_.begin : *std::prev(after) + 1;
      swap.in = static_cast<int>(copies_in_.size());
      copies_in_.push_back({bytes, earliest, swap.begin, 0, description.memory});
    }
    if (written) context.written_before[buffer] = 1;
    // A value that no op needs any more is not copied out.
    if (written && (description.persistent || context.lifetimes[buffer].death > swap.end + 1)) {
      const auto next = host_use_after(swap.end);
      swap.out = static_cast<int>(copies_out_.size());
      copies_out_.push_back(
          {bytes, swap.end + 1, swap.end, next == host_uses.end() ? segment_.end : *next, 0, 0, description.memory});
    }
    for (int32_t op = swap.begin; op <= swap.end; ++op) live[op] += bytes;
    swaps_.push_back(swap);
    i = end + 1;
  }
}

// Plans the host copies for ops on the host. Each operand on the device is copied to the host before the op. A
// persistent operand that the op writes is copied back.
void SegmentCopies::plan_host_operands(Context& context, TraceRewriter& rewriter) {
  if (host_ops_.empty()) return;
  const Trace& trace = context.trace;
  std::map<BufferId, int32_t> written_at;  // by buffer: the last op on the device before op i that writes it
  std::map<BufferId, size_t> shared;
  size_t k = 0;
  for (int32_t i = segment_.begin; i < segment_.end; ++i) {
    if (k == host_ops_.size()) break;
    if (host_ops_[k] != i) {
      for_each_view(trace.ops[i], [&](const View& view, bool written) {
        if (!written) return;
        written_at[view.buffer] = i;
        shared.erase(view.buffer);
      });
      continue;
    }
    std::map<BufferId, bool> operands;
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      if (trace.buffers[view.buffer].on_device()) operands[view.buffer] = operands[view.buffer] || written;
    });
    for (const auto& [buffer, written] : operands) {
      if (const auto there = shared.find(buffer); there != shared.end()) {
        host_operand_of_[i][buffer] = host_operands_[there->second].host_copy;
        continue;
      }
      const int64_t bytes = placed_bytes(trace, trace.buffers[buffer].bytes);
      const bool small = bytes <= kSharedBytes && !written;
      const auto at = written_at.find(buffer);
      int32_t ready = at == written_at.end() ? segment_.begin : at->second + 1;
      if (!small && k >= kHostOpsAhead) ready = std::max(ready, host_ops_[k - kHostOpsAhead] + 1);
      Buffer copy = trace.buffers[buffer];
      copy.persistent = copy.output = false;
      copy.memory = Memory::host;
      HostOperand host_operand{buffer, rewriter.add_buffer(std::move(copy)), i, static_cast<int>(copies_out_.size())};
      copies_out_.push_back({bytes, ready, i - 1, i, 0, 0});
      if (written && trace.buffers[buffer].persistent)
        host_operand.copied_back_by =
            k + kHostOpsAhead < host_ops_.size() ? host_ops_[k + kHostOpsAhead] : segment_.end;
      host_operand_of_[i][buffer] = host_operand.host_copy;
      if (small) shared[buffer] = host_operands_.size();
      host_operands_.push_back(host_operand);
    }
    ++k;
  }
}

void SegmentCopies::schedule_copies(const Context& context, const std::vector<int64_t>& live) {
  CopySchedule schedule(context.cost, context.trace, segment_, live, context.limit);
  schedule.place(copies_out_);
  std::map<BufferId, int32_t> offloaded_since;
  for (const Swap& swap : swaps_) {
    // A copy in starts only after the copy out that wrote its source is done. For a saved value this is the swap's own
    // copy out. For an offloaded buffer it is the copy out of the nearest earlier residency interval that has one.
    if (swap.copies_out_first)
      copies_in_[swap.in].earliest = copies_out_[swap.out].wait;
    else if (const auto found = offloaded_since.find(swap.buffer); swap.in >= 0 && found != offloaded_since.end())
      copies_in_[swap.in].earliest = std::max(copies_in_[swap.in].earliest, found->second);
    if (!swap.copies_out_first && swap.out >= 0) offloaded_since[swap.buffer] = copies_out_[swap.out].wait;
  }
  schedule.place(copies_in_);
  // `order` sorts the starts and waits that precede one op. Waits for copies out come first, because they free bytes:
  //   0 wait for a copy out,  1 start of a copy out,  2 wait for a copy out that starts before the same op,
  //   3 start of a copy in,   4 wait for a copy in
  const auto add_out = [&](const CopyOut& out, BufferId target, BufferId source) {
    events_[out.start].push_back({1, CopyStage::start, target, source});
    events_[out.wait].push_back({out.wait == out.start ? 2 : 0, CopyStage::wait, target, source});
  };
  const auto add_in = [&](int32_t start, int32_t need, BufferId target, BufferId source) {
    events_[start].push_back({3, CopyStage::start, target, source});
    events_[need].push_back({4, CopyStage::wait, target, source});
  };
  for (const Swap& swap : swaps_) {
    if (swap.out >= 0)
      add_out(copies_out_[swap.out], swap.offload_buffer, swap.copies_out_first ? swap.buffer : swap.device_copy);
    if (swap.in >= 0)
      add_in(copies_in_[swap.in].start, copies_in_[swap.in].need, swap.device_copy, swap.offload_buffer);
  }
  for (const HostOperand& host_operand : host_operands_) {
    add_out(copies_out_[host_operand.out], host_operand.host_copy, host_operand.buffer);
    if (host_operand.copied_back_by >= 0)
      add_in(host_operand.first_use + 1, host_operand.copied_back_by, host_operand.buffer, host_operand.host_copy);
  }
  for (auto& [op, list] : events_)
    std::stable_sort(list.begin(), list.end(),
                     [](const CopyEvent& a, const CopyEvent& b) { return a.order < b.order; });
}

Op SegmentCopies::with_copies(Op op, int32_t index) const {
  const auto operands = host_operand_of_.find(index);
  replace_buffers(op, [&](BufferId buffer, bool) {
    if (op.on_host) {
      if (operands == host_operand_of_.end()) return buffer;
      const auto host_operand = operands->second.find(buffer);
      return host_operand == operands->second.end() ? buffer : host_operand->second;
    }
    if (const auto found = by_buffer_.find(buffer); found != by_buffer_.end())
      for (const Swap* swap : found->second)
        if (swap->begin <= index && index <= swap->end) return swap->device_copy;
    return buffer;
  });
  return op;
}

}  // namespace plimsoll
