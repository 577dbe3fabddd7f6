// Implements cross entropy over rows of logits; the gradient overwrites the logits.
#include <cstring>
#include <limits>

#include "ops/kernel_dtypes.h"
#include "ops/kernels_cpu.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

template <typename T>
PLIMSOLL_INLINE void cross_entropy(const CrossEntropy& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  using S = Scalar<T>;
  const S lowest = -std::numeric_limits<S>::infinity();
  // One read finds the largest logit and the sum of exponentials: block by block, the sum is rescaled when the largest
  // grows.
  constexpr int64_t kBlock = 64 * kLanes;
  for (int64_t row = begin; row < end; ++row) {
    T* x = row_of<T>(args.logits, row);
    const int64_t target = args.targets[row * args.target_stride];
    S& loss = static_cast<S*>(args.losses)[row];
    if (target == args.ignore_index) {
      loss = 0;
      if (args.gradient) std::memset(static_cast<void*>(x), 0, static_cast<size_t>(args.width) * sizeof(T));
      continue;
    }
    const S cap = static_cast<S>(args.softcap), inner = cap > 0 ? 1 / cap : 0;
    if (cap > 0) {
      PLIMSOLL_FOR_LANES(i, partial, args.width) {
        store_some(x + i, lanes::tanh(load_some(static_cast<const T*>(x) + i, partial) * inner) * cap, partial);
      }
    }
    S maximum = lowest, total = 0, unordered = 0;
    for (int64_t block = 0; block < args.width; block += kBlock) {
      const int64_t size = args.width - block < kBlock ? args.width - block : kBlock;
      const int64_t whole = size / kLanes * kLanes;
      V top = splat<V>(lowest);
      for (int64_t i = 0; i < whole; i += kLanes) top = larger(load(static_cast<const T*>(x) + block + i), top);
      S block_top = whole ? largest(top) : lowest;
      for (int64_t i = whole; i < size; ++i) {
        const S value = static_cast<S>(x[block + i]);
        if (value > block_top) block_top = value;
      }
      if (block_top > maximum) {
        total = maximum == lowest ? 0 : total * std::exp(maximum - block_top);
        maximum = block_top;
      }
      if (maximum == lowest) {  // only minus infinity so far, or NaN
        for (int64_t i = 0; i < size; ++i)
          if (const S value = static_cast<S>(x[block + i]); value != value) unordered = value;
        continue;
      }
      V sums{};
      for (int64_t i = 0; i < whole; i += kLanes)
        sums += lanes::exp(load(static_cast<const T*>(x) + block + i) - maximum);
      total += sum(sums);
      for (int64_t i = whole; i < size; ++i) total += std::exp(static_cast<S>(x[block + i]) - maximum);
    }
    const S log_sum = maximum + std::log(total) + unordered;
    loss = log_sum - static_cast<S>(x[target]);
    if (!args.gradient) continue;
    S at_target = std::exp(static_cast<S>(x[target]) - log_sum) - 1;
    if (cap > 0) {
      // The derivative of the capped logit is 1 - (its fraction of the cap)^2.
      const S target_share = static_cast<S>(x[target]) * inner;
      at_target *= 1 - target_share * target_share;
      PLIMSOLL_FOR_LANES(i, partial, args.width) {
        const V logit = load_some(static_cast<const T*>(x) + i, partial), share = logit * inner;
        store_some(x + i, lanes::exp(logit - log_sum) * (1 - share * share), partial);
      }
    } else {
      // A logit may be minus infinity: it must not be multiplied by 0.
      PLIMSOLL_FOR_LANES(i, partial, args.width) {
        store_some(x + i, lanes::exp(load_some(static_cast<const T*>(x) + i, partial) - log_sum), partial);
      }
    }
    x[target] = static_cast<T>(at_target);
  }
}

}  // namespace

PLIMSOLL_KERNELS(cross_entropy, (const CrossEntropy& args, int64_t begin, int64_t end), (args, begin, end))

void cross_entropy_rows(const CrossEntropy& args, int64_t begin, int64_t end) {
  pick_cross_entropy(args.logits.dtype, args, begin, end);
}

}  // namespace plimsoll::ops
