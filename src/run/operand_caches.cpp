#include "run/operand_caches.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <functional>

#include "plimsoll/error.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

constexpr int64_t kCacheLineBytes = 64;
constexpr int64_t kBytesPerTask = 64 * kCacheLineBytes;
// Bytes of the shared cache that hold operands, for each thread. A virtual machine reports the size of the whole cache,
// which other virtual machines use too. Of all sizes tried, 4 to 16 MiB gave the smallest differences between predicted
// and measured steps.
constexpr int64_t kSharedCacheBytesPerThread = int64_t{8} << 20;

int64_t cache_bytes(int name, int64_t if_unknown) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : if_unknown;
}

void read(std::span<const std::byte> range) {
  int64_t sum = 0;
  for (int64_t i = 0; i < std::ssize(range); i += kCacheLineBytes)
    sum += static_cast<int64_t>(range[static_cast<size_t>(i)]);
  if (!range.empty()) sum += static_cast<int64_t>(range.back());
  asm volatile("" : : "r"(sum));  // a use of the sum, so that the reads are not removed
}

// Removes a range from all caches. On processors other than x86-64 it stays in a shared cache.
void flush(std::span<const std::byte> range) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < std::ssize(range); i += kCacheLineBytes) _mm_clflush(&range[static_cast<size_t>(i)]);
  if (!range.empty()) _mm_clflush(&range.back());
  _mm_mfence();
#endif
}

// Calls visit(part) for parts of a range, on all threads.
void in_parts(std::span<const std::byte> range, void (*visit)(std::span<const std::byte>)) {
  at::parallel_for(0, std::ssize(range), kBytesPerTask, [&](int64_t begin, int64_t end) {
    visit(range.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

}  // namespace

CacheLevel cache_level_of(int64_t distance, const CacheSizes& sizes, int64_t threads) {
  if (distance <= threads * sizes.core) return CacheLevel::core;
  return distance <= std::min(sizes.shared, threads * kSharedCacheBytesPerThread) ? CacheLevel::shared
                                                                                  : CacheLevel::memory;
}

OperandCaches::OperandCaches()
    : sizes_{cache_bytes(_SC_LEVEL2_CACHE_SIZE, int64_t{2} << 20),
             cache_bytes(_SC_LEVEL3_CACHE_SIZE, int64_t{256} << 20)} {}

void OperandCaches::prepare(std::span<const std::span<const std::byte>> operands, std::span<const int64_t> distances) {
  check(operands.size() == distances.size(), "each operand has a distance");
  std::vector<size_t> near;
  for (size_t i = 0; i < operands.size(); ++i) {
    switch (cache_level_of(distances[i], sizes_, at::get_num_threads())) {
      case CacheLevel::core:
        near.push_back(i);
        break;
      case CacheLevel::shared:
        in_parts(operands[i], read);
        break;
      case CacheLevel::memory:
        in_parts(operands[i], flush);
        break;
    }
  }
  evict_from_cores();
  // The operand that was touched last is read last.
  std::ranges::stable_sort(near, std::greater(), [&](size_t i) { return distances[i]; });
  for (const size_t i : near) in_parts(operands[i], read);
}

void OperandCaches::evict_from_cores() {
  if (memory_.empty()) memory_.assign(static_cast<size_t>(2 * sizes_.core), std::byte{1});
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) read(memory_);
  });
}

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
