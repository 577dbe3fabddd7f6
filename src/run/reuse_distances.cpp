#include "run/reuse_distances.h"

#include <algorithm>

#include "trace/byte_range.h"

namespace plimsoll {
namespace {

constexpr int64_t kPageBytes = 4096;
// A larger operand is sampled at even steps.
constexpr int64_t kMaxSampledPages = 64;

struct Pages {
  int64_t begin = 0, end = 0;
};

Pages pages_of(int64_t begin, int64_t end) {
  return begin == end ? Pages() : Pages{begin / kPageBytes, (end - 1) / kPageBytes + 1};
}

// Returns the pages of the arena that an operand touches; none if it is in another memory.
Pages pages_of(const Plan& plan, const View& view) {
  if (!plan.trace.buffers[view.buffer].on_device()) return {};
  const ByteRange range = byte_range(view);
  const int64_t start = plan.offsets[view.buffer];
  return pages_of(start + range.begin, start + range.end);
}

class StepClock {
 public:
  explicit StepClock(const Plan& plan) : plan_(plan), touched_(plan.arena_bytes / kPageBytes + 1, kNotCached) {}

  std::vector<int64_t> distances_of(const Op& op) {
    std::vector<int64_t> distances;
    for_each_view(op, [&](const View& view, bool) { distances.push_back(distance(pages_of(plan_, view))); });
    return distances;
  }

  void run(size_t index) {
    const Op& op = plan_.trace.ops[index];
    // The op that starts the copy or the exchange has touched the operands.
    if (op.copy == CopyStage::wait || op.exchange == CopyStage::wait) return;
    int64_t bytes = 0;
    for_each_view(op, [&](const View& view, bool) {
      touch(pages_of(plan_, view));
      const ByteRange range = byte_range(view);
      bytes += std::min(view.elements() * element_bytes(view.dtype), range.end - range.begin);  // strides can be 0
    });
    if (const int64_t start = op.on_host ? -1 : plan_.workspace_offsets[index]; start >= 0) {
      touch(pages_of(start, start + op.workspace_bytes));
      bytes += op.workspace_bytes;
    }
    bytes_ += bytes;
  }

 private:
  void touch(const Pages& pages) { std::fill(touched_.begin() + pages.begin, touched_.begin() + pages.end, bytes_); }

  int64_t distance(const Pages& pages) {
    sample_.clear();
    const int64_t step = (pages.end - pages.begin + kMaxSampledPages - 1) / kMaxSampledPages;
    for (int64_t page = pages.begin; page < pages.end; page += step)
      sample_.push_back(touched_[page] == kNotCached ? kNotCached : bytes_ - touched_[page]);
    if (sample_.empty()) return kNotCached;
    const auto middle = sample_.begin() + std::ssize(sample_) / 2;
    std::ranges::nth_element(sample_, middle);
    return *middle;
  }

  const Plan& plan_;
  std::vector<int64_t> touched_;  // by page: bytes_ at the start of the last op that touched it
  std::vector<int64_t> sample_;
  int64_t bytes_ = 0;  // bytes that ops have touched so far
};

}  // namespace

std::vector<std::vector<int64_t>> reuse_distances(const Plan& plan) {
  std::vector<std::vector<int64_t>> distances(plan.trace.ops.size());
  StepClock clock(plan);
  for (const bool again : {false, true})  // a step begins with what the step before it left in the caches
    for (size_t i = 0; i < plan.trace.ops.size(); ++i) {
      const Op& op = plan.trace.ops[i];
      // No step evaluates. In a trace, segment `evaluate` comes last.
      if (op.phase == Phase::initialize || (op.phase == Phase::evaluate && !again)) continue;
      if (again) distances[i] = clock.distances_of(op);
      clock.run(i);
    }
  return distances;
}

}  // namespace plimsoll
