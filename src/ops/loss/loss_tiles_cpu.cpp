#include "ops/loss/loss_tiles_cpu.h"

#include <limits>

#include "ops/cpu_capability.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using c10::BFloat16;
using namespace lanes;

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// Returns e^x for x up to 0.
PLIMSOLL_INLINE Floats exponential(Floats x) {
  return power_of_two(Floats(x * static_cast<float>(kLog2E)));
}

/// Returns x, or 0 if x is minus infinity; of a NaN, NaN or 0.
PLIMSOLL_INLINE Floats zero_if_lowest(Floats x) {
  return select(below(x, splat<Floats>(std::numeric_limits<float>::lowest())), Floats{}, x);
}

/// Stores a value that is exact in T.
PLIMSOLL_INLINE void store_rounded(float* to, Floats value) {
  store(to, value);
}
PLIMSOLL_INLINE void store_rounded(BFloat16* to, Floats value) {
  const Halves narrow = __builtin_convertvector(reinterpret_cast<Words>(value) >> 16, Halves);
  std::memcpy(static_cast<void*>(to), &narrow, sizeof(narrow));
}

template <typename T>
PLIMSOLL_INLINE void logit_tile_of(const LogitTile& tile) {
  const float cap = static_cast<float>(tile.cap), inner = cap > 0 ? 1 / cap : 0;
  for (int64_t lane = 0; lane < tile.lanes; lane += kLanes) {
    const Floats before = load(static_cast<const float*>(tile.maximum + lane));
    Floats maximum = before;
    for (int64_t row = 0; row < tile.rows; ++row) {
      float* at = tile.scores + row * tile.lanes + lane;
      Floats score = load(static_cast<const float*>(at));
      if (cap > 0) score = lanes::tanh(score * inner) * cap;
      score = rounded_to<T>(score);  // probabilities of the stored logits are then at most 1
      store(at, score);
      if (tile.logits) store_rounded(static_cast<T*>(tile.logits) + row * tile.stride + lane, score);
      maximum = larger(score, maximum);  // a NaN shows in the sum
    }
    // If there was only minus infinity so far, no distance is taken from it.
    const Floats from = zero_if_lowest(maximum);
    Floats total = load(static_cast<const float*>(tile.sums + lane)) * exponential(before - from);
    for (int64_t row = 0; row < tile.rows; ++row)
      total += exponential(load(static_cast<const float*>(tile.scores + row * tile.lanes + lane)) - from);
    store(tile.maximum + lane, maximum);
    store(tile.sums + lane, total);
  }
}

PLIMSOLL_INLINE void logarithm_of(const float* maximum, const float* sums, int64_t count, int64_t lanes,
                                  float* numbers) {
  for (int64_t lane = 0; lane < lanes; lane += kLanes) {
    Floats top = splat<Floats>(kLowest), total{};
    for (int64_t i = 0; i < count; ++i) top = larger(load(maximum + i * lanes + lane), top);
    const Floats from = zero_if_lowest(top);
    for (int64_t i = 0; i < count; ++i)
      total += load(sums + i * lanes + lane) * exponential(load(maximum + i * lanes + lane) - from);
    for (int64_t i = 0; i < kLanes; ++i) numbers[lane + i] = top[i] + std::log(total[i]);
  }
}

/// Computes the gradient of 16 logits; with a cap the derivative of the capped logit is 1 - (its fraction of the
/// cap)^2.
template <typename T>
PLIMSOLL_INLINE Floats gradient_of(const LogitGradients& args, int64_t row, int64_t lane, float inner) {
  const Floats logit = load(static_cast<const T*>(args.logits) + row * args.lanes + lane);
  Floats gradient = exponential(logit - load(args.log_sum + lane));
  if (inner > 0) {
    const Floats share = logit * inner;
    gradient *= 1 - share * share;
  }
  return select(below(Floats{}, load(args.counts + lane)), gradient, Floats{});
}

PLIMSOLL_INLINE float inverse_cap(const LogitGradients& args) {
  const float cap = static_cast<float>(args.cap);
  return cap > 0 ? 1 / cap : 0;
}

PLIMSOLL_INLINE void logit_gradients_of(const LogitGradients& args, float) {
  const float inner = inverse_cap(args);
  for (int64_t row = 0; row < args.rows; ++row) {
    float* to = static_cast<float*>(args.gradients) + row * args.stride;
    for (int64_t lane = 0; lane < args.lanes; lane += kLanes)
      store(to + lane, gradient_of<float>(args, row, lane, inner));
  }
}
PLIMSOLL_INLINE void logit_gradients_of(const LogitGradients& args, BFloat16) {
  const float inner = inverse_cap(args);
  for (int64_t row = 0; row < args.rows; row += 2) {
    auto* to = args.gradients ? static_cast<BFloat16*>(args.gradients) + row * args.stride : nullptr;
    for (int64_t lane = 0; lane < args.lanes; lane += kLanes) {
      const Floats first = rounded_to<BFloat16>(gradient_of<BFloat16>(args, row, lane, inner));
      Floats second{};
      if (to) store_rounded(to + lane, first);
      if (row + 1 < args.rows) {
        second = rounded_to<BFloat16>(gradient_of<BFloat16>(args, row + 1, lane, inner));
        if (to) store_rounded(to + args.stride + lane, second);
      }
      if (!args.pairs) continue;
      const Words pairs = (reinterpret_cast<Words>(first) >> 16) | reinterpret_cast<Words>(second);
      std::memcpy(args.pairs + row / 2 * args.stride + lane, &pairs, sizeof(pairs));
    }
  }
}

PLIMSOLL_INLINE void load_split_of(const SplitRows& from, int64_t columns, float* to) {
  for (int64_t i = 0; i < from.high.count; ++i, to += columns)
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t left = from.high.width - j, partial = left < kLanes ? left : 0, at = i * from.high.stride + j;
      Floats value = load_some(static_cast<const BFloat16*>(from.high.data) + at, partial);
      if (from.low) value += load_some(static_cast<const BFloat16*>(from.low) + at, partial);
      store(to + j, value);
    }
}

PLIMSOLL_INLINE void store_split_of(const float* from, int64_t columns, const SplitRows& to) {
  for (int64_t i = 0; i < to.high.count; ++i, from += columns) PLIMSOLL_FOR_LANES(j, partial, to.high.width) {
      const int64_t at = i * to.high.stride + j;
      const Floats value = load(from + j);
      const Floats high = rounded_to<BFloat16>(value);
      auto *upper = static_cast<BFloat16*>(to.high.data) + at,
           *lower = to.low ? static_cast<BFloat16*>(to.low) + at : nullptr;
      if (partial) {
        store(upper, high, partial);
        if (to.low) store(lower, Floats(value - high), partial);
      } else {
        store_rounded(upper, high);
        if (to.low) store_rounded(lower, rounded_to<BFloat16>(value - high));
      }
    }
}

PLIMSOLL_VARIANTS(void, logit_tile_f32, (const LogitTile& tile), (tile), { logit_tile_of<float>(tile); })
PLIMSOLL_VARIANTS(void, logit_tile_bf16, (const LogitTile& tile), (tile), { logit_tile_of<BFloat16>(tile); })
PLIMSOLL_VARIANTS(void, logarithm,
                  (const float* maximum, const float* sums, int64_t count, int64_t lanes, float* numbers),
                  (maximum, sums, count, lanes, numbers), { logarithm_of(maximum, sums, count, lanes, numbers); })
PLIMSOLL_VARIANTS(void, logit_gradients_f32, (const LogitGradients& args), (args),
                  { logit_gradients_of(args, float{}); })
PLIMSOLL_VARIANTS(void, logit_gradients_bf16, (const LogitGradients& args), (args),
                  { logit_gradients_of(args, BFloat16{}); })
PLIMSOLL_VARIANTS(void, load_split_bf16, (const SplitRows& from, int64_t columns, float* to), (from, columns, to),
                  { load_split_of(from, columns, to); })
PLIMSOLL_VARIANTS(void, store_split_bf16, (const float* from, int64_t columns, const SplitRows& to),
                  (from, columns, to), { store_split_of(from, columns, to); })

template <typename T>
void target_gradient_of(const LogitGradients& args, int64_t row, int64_t lane) {
  const float logit = static_cast<const T*>(args.logits)[row * args.lanes + lane];
  const float cap = static_cast<float>(args.cap), share = cap > 0 ? logit / cap : 0;
  const T gradient = static_cast<T>((std::exp(logit - args.log_sum[lane]) - 1) * (1 - share * share));
  if (args.gradients) static_cast<T*>(args.gradients)[row * args.stride + lane] = gradient;
  if (args.pairs) {
    auto* pair = reinterpret_cast<char*>(args.pairs + row / 2 * args.stride + lane);
    std::memcpy(pair + row % 2 * 2, static_cast<const void*>(&gradient), 2);
  }
}

}  // namespace

void logit_tile(const LogitTile& tile) {
  check(tile.dtype == DType::float32 || tile.dtype == DType::bfloat16, "logit_tile: not a dtype of blocks");
  (tile.dtype == DType::float32 ? logit_tile_f32 : logit_tile_bf16)(tile);
}
void logarithm_of_sums(const float* maximum, const float* sums, int64_t count, int64_t lanes, float* numbers) {
  logarithm(maximum, sums, count, lanes, numbers);
}
void logit_gradients(const LogitGradients& args) {
  (args.dtype == DType::float32 ? logit_gradients_f32 : logit_gradients_bf16)(args);
}
void target_gradient(const LogitGradients& args, int64_t row, int64_t lane) {
  (args.dtype == DType::float32 ? target_gradient_of<float> : target_gradient_of<BFloat16>)(args, row, lane);
}
void load_split(const SplitRows& from, int64_t columns, float* to) {
  load_split_bf16(from, columns, to);
}
void store_split(const float* from, int64_t columns, const SplitRows& to) {
  store_split_bf16(from, columns, to);
}

}  // namespace plimsoll::ops
