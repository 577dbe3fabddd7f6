// Softmax over rows of scores, as attention with capped scores takes it, and of logits with their loss.
#include <cstring>
#include <limits>

#include "ops/kernel_dtypes.h"
#include "ops/kernel_rows.h"
#include "ops/kernels_cpu.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

/// The columns that a row sees; the others are set to 0.
struct Seen {
  int64_t begin, end;
};
template <typename T>
PLIMSOLL_INLINE Seen seen_by(const CappedSoftmax& args, int64_t row, T* x) {
  if (!args.causal) return {0, args.width};
  Seen seen{args.first_seen + row, args.seen + row};
  seen.begin = seen.begin > 0 ? seen.begin : 0;
  seen.end = seen.end < args.width ? seen.end : args.width;
  for (int64_t i = 0; i < seen.begin; ++i) x[i] = 0;
  for (int64_t i = seen.end; i < args.width; ++i) x[i] = 0;
  return seen;
}

template <typename T>
PLIMSOLL_INLINE void capped_softmax(const CappedSoftmax& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  const T inner = static_cast<T>(args.scale / args.cap), cap = static_cast<T>(args.cap);
  for (int64_t row = begin; row < end; ++row) {
    T* all = row_of<T>(args.scores, row);
    const Seen seen = seen_by(args, row, all);
    const int64_t count = seen.end - seen.begin;
    T* x = all + seen.begin;
    T greatest = -std::numeric_limits<T>::infinity(), total = 0;
    PLIMSOLL_FOR_LANES(i, partial, count) {
      const V value = lanes::tanh(load_some(static_cast<const T*>(x) + i, partial) * inner) * cap;
      store_some(x + i, value, partial);
      for (int64_t lane = 0; lane < (partial ? partial : kLanes); ++lane)
        greatest = value[lane] > greatest ? value[lane] : greatest;
    }
    PLIMSOLL_FOR_LANES(i, partial, count) {
      const V value = lanes::exp(load_some(static_cast<const T*>(x) + i, partial) - greatest);
      store_some(x + i, value, partial);
      if (partial == 0) total += sum(value);
      for (int64_t lane = 0; lane < partial; ++lane) total += value[lane];
    }
    const T share = 1 / total;
    PLIMSOLL_FOR_LANES(i, partial, count) {
      store_some(x + i, load_some(static_cast<const T*>(x) + i, partial) * share, partial);
    }
    static_cast<T*>(args.logsumexp)[row] = greatest + std::log(total);
  }
}

template <typename T>
PLIMSOLL_INLINE void capped_softmax_backward(const CappedSoftmax& args, const Rows& grad, const void* delta,
                                             int64_t begin, int64_t end) {
  using V = Vector<T>;
  const T inner = static_cast<T>(args.scale / args.cap), cap = static_cast<T>(args.cap);
  const T scale = static_cast<T>(args.scale);
  for (int64_t row = begin; row < end; ++row) {
    T* x = row_of<T>(args.scores, row);
    T* g = row_of<T>(grad, row);
    seen_by(args, row, g);
    const Seen seen = seen_by(args, row, x);
    const T log_sum = static_cast<const T*>(args.logsumexp)[row], mean = static_cast<const T*>(delta)[row];
    x += seen.begin;
    g += seen.begin;
    PLIMSOLL_FOR_LANES(i, partial, seen.end - seen.begin) {
      const V share = lanes::tanh(load_some(static_cast<const T*>(x) + i, partial) * inner);
      const V probability = lanes::exp(share * cap - log_sum);
      const V through = (load_some(static_cast<const T*>(g) + i, partial) - mean) * probability;
      store_some(x + i, probability, partial);
      store_some(g + i, through * (1 - share * share) * scale, partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void cross_entropy(const CrossEntropy& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  using S = Scalar<T>;
  const S lowest = -std::numeric_limits<S>::infinity();
  // The greatest and the sum of exponentials in one reading: block by block, the sum rescaled where the greatest grows.
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
    S greatest = lowest, total = 0;
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
      if (block_top > greatest) {
        total = greatest == lowest ? 0 : total * std::exp(greatest - block_top);
        greatest = block_top;
      }
      if (greatest == lowest) continue;  // nothing but minus infinity so far
      V sums{};
      for (int64_t i = 0; i < whole; i += kLanes)
        sums += lanes::exp(load(static_cast<const T*>(x) + block + i) - greatest);
      total += sum(sums);
      for (int64_t i = whole; i < size; ++i) total += std::exp(static_cast<S>(x[block + i]) - greatest);
    }
    const S log_sum = greatest + std::log(total);
    loss = log_sum - static_cast<S>(x[target]);
    if (!args.gradient) continue;
    S at_target = std::exp(static_cast<S>(x[target]) - log_sum) - 1;
    if (cap > 0) {
      // The derivative of the capped logit is 1 - (its share of the cap)^2.
      const S target_share = static_cast<S>(x[target]) * inner;
      at_target *= 1 - target_share * target_share;
      PLIMSOLL_FOR_LANES(i, partial, args.width) {
        const V logit = load_some(static_cast<const T*>(x) + i, partial), share = logit * inner;
        store_some(x + i, lanes::exp(logit - log_sum) * (1 - share * share), partial);
      }
    } else {
      // Minus infinity may be a logit: no product with 0.
      PLIMSOLL_FOR_LANES(i, partial, args.width) {
        store_some(x + i, lanes::exp(load_some(static_cast<const T*>(x) + i, partial) - log_sum), partial);
      }
    }
    x[target] = static_cast<T>(at_target);
  }
}

}  // namespace

PLIMSOLL_KERNELS(cross_entropy, (const CrossEntropy& args, int64_t begin, int64_t end), (args, begin, end))

// Scores are in the accumulator's type.
#define PLIMSOLL_CAPPED(T, suffix)                                                                              \
  PLIMSOLL_CLONES static void capped_softmax_##suffix(const CappedSoftmax& args, int64_t begin, int64_t end) {  \
    capped_softmax<T>(args, begin, end);                                                                        \
  }                                                                                                             \
  PLIMSOLL_CLONES static void capped_softmax_backward_##suffix(const CappedSoftmax& args, const Rows& grad,     \
                                                               const void* delta, int64_t begin, int64_t end) { \
    capped_softmax_backward<T>(args, grad, delta, begin, end);                                                  \
  }
PLIMSOLL_CAPPED(float, f32)
PLIMSOLL_CAPPED(double, f64)

void capped_softmax_rows(const CappedSoftmax& args, int64_t begin, int64_t end) {
  if (args.scores.dtype == DType::float64) return capped_softmax_f64(args, begin, end);
  check(args.scores.dtype == DType::float32, "scores are of the accumulator's type");
  capped_softmax_f32(args, begin, end);
}

void capped_softmax_backward_rows(const CappedSoftmax& args, const Rows& grad, const void* delta, int64_t begin,
                                  int64_t end) {
  if (args.scores.dtype == DType::float64) return capped_softmax_backward_f64(args, grad, delta, begin, end);
  check(args.scores.dtype == DType::float32, "scores are of the accumulator's type");
  capped_softmax_backward_f32(args, grad, delta, begin, end);
}

void cross_entropy_rows(const CrossEntropy& args, int64_t begin, int64_t end) {
  pick_cross_entropy(args.logits.dtype, args, begin, end);
}

}  // namespace plimsoll::ops
