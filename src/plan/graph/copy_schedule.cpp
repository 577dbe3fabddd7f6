#include "plan/graph/copy_schedule.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

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

}  // namespace plimsoll
