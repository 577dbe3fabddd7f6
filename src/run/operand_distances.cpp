#include "run/operand_distances.h"

#include <algorithm>

#include "trace/byte_range.h"

namespace plimsoll {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kPagesOfMedian = 64;  // of a large operand, at even steps

struct Pages {
  int64_t begin = 0, end = 0;
};

// Returns the pages of the arena that an operand touches; none if it is in another memory.
Pages pages_of(const Plan& plan, const View& view) {
  const ByteRange range = byte_range(view);
  if (!plan.trace.buffers[view.buffer].on_device() || range.begin == range.end) return {};
  const int64_t start = plan.offsets[view.buffer];
  return {(start + range.begin) / kPage, (start + range.end - 1) / kPage + 1};
}

class StepClock {
 public:
  explicit StepClock(const Plan& plan) : plan_(plan), touched_(plan.arena_bytes / kPage + 2, kUntouched) {}

  std::vector<int64_t> distances_of(const Op& op) {
    std::vector<int64_t> distances;
    for_each_view(op, [&](const View& view, bool) { distances.push_back(distance(pages_of(plan_, view))); });
    return distances;
  }

  void run(const Op& op) {
    int64_t bytes = 0;
    for_each_view(op, [&](const View& view, bool) {
      const auto [begin, end] = pages_of(plan_, view);
      std::fill(touched_.begin() + begin, touched_.begin() + end, bytes_);
      bytes += view.elements() * element_bytes(view.dtype);
    });
    bytes_ += bytes;
  }

 private:
  int64_t distance(const Pages& pages) {
    sample_.clear();
    const int64_t step = (pages.end - pages.begin + kPagesOfMedian - 1) / kPagesOfMedian;
    for (int64_t page = pages.begin; page < pages.end; page += step)
      sample_.push_back(touched_[page] == kUntouched ? kUntouched : bytes_ - touched_[page]);
    if (sample_.empty()) return kUntouched;
    const auto middle = sample_.begin() + std::ssize(sample_) / 2;
    std::ranges::nth_element(sample_, middle);
    return *middle;
  }

  const Plan& plan_;
  std::vector<int64_t> touched_;  // by page: bytes_ at the start of the last op that touched it
  std::vector<int64_t> sample_;
  int64_t bytes_ = 0;  // that ops have touched so far
};

}  // namespace

std::vector<std::vector<int64_t>> operand_distances(const Plan& plan) {
  std::vector<std::vector<int64_t>> distances(plan.trace.ops.size());
  StepClock clock(plan);
  for (const bool again : {false, true})  // a step begins with what the step before it left in the caches
    for (size_t i = 0; i < plan.trace.ops.size(); ++i) {
      const Op& op = plan.trace.ops[i];
      if (op.phase == Phase::initialize) continue;
      if (again) distances[i] = clock.distances_of(op);
      clock.run(op);
    }
  return distances;
}

}  // namespace plimsoll
