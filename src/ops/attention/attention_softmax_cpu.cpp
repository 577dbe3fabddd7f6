#include "ops/attention/attention_softmax_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"

namespace plimsoll::ops {

using c10::BFloat16;
using namespace lanes;

namespace {

template <typename S>
using Index = std::conditional_t<std::is_same_v<S, double>, Longs, Ints>;
template <typename S>
using IndexScalar = std::conditional_t<std::is_same_v<S, double>, int64_t, int32_t>;

template <typename S>
PLIMSOLL_INLINE Index<S> lane_numbers(int64_t first) {
  Index<S> numbers{};
  for (int i = 0; i < kLanes; ++i) numbers[i] = static_cast<IndexScalar<S>>(i);
  return numbers + static_cast<IndexScalar<S>>(first);
}

/// Returns a product as it is after it was stored. A selection by its bits in between keeps the compiler from fusing
/// the product with a following subtraction. Otherwise a row's largest score would not be at distance 0 from itself.
/// For large scores the error would exceed the range of an exponential.
template <typename V>
PLIMSOLL_INLINE V settled(const V& product) {
  const V least = splat<V>(std::numeric_limits<std::remove_cvref_t<decltype(product[0])>>::lowest());
  return where_below(product, least, least, product);
}

/// The values that all rows of a block share.
template <typename S>
struct Scores {
  using V = VectorOf<S>;
  const ScoreBlock& block;
  S factor, inner, cap;  ///< scale; scale / cap; cap

  PLIMSOLL_INLINE explicit Scores(const ScoreBlock& all)
      : block(all),
        factor(static_cast<S>(all.scale)),
        inner(static_cast<S>(all.cap > 0 ? all.scale / all.cap : 0)),
        cap(static_cast<S>(all.cap)) {}

  PLIMSOLL_INLINE S* row(int64_t key, int64_t lane) const {
    return static_cast<S*>(block.scores) + key * block.lanes + lane;
  }
  /// Returns the score, or minus infinity if a query does not see the key.
  PLIMSOLL_INLINE V seen(const V& score, int64_t key, const Index<S>& queries) const {
    if (!block.causal) return score;
    const V hidden = splat<V>(-std::numeric_limits<S>::infinity());
    const Index<S> after = queries - static_cast<IndexScalar<S>>(block.lead + key);
    const V result = select(negative(after), hidden, score);
    if (block.window == 0) return result;
    return select(negative(Index<S>(after - static_cast<IndexScalar<S>>(block.window))), result, hidden);
  }
  /// Returns the score and what the mask adds.
  PLIMSOLL_INLINE V biased(const V& score, int64_t key, int64_t lane) const {
    if (block.bias == nullptr) return score;
    return settled(score) + load(static_cast<const S*>(block.bias) + key * block.lanes + lane);
  }
  /// Returns true if some query of the block does not see some key of it.
  PLIMSOLL_INLINE bool any_hidden() const {
    return block.causal &&
           (block.lead + block.keys > 1 || (block.window > 0 && block.lead + block.window < block.lanes));
  }
};

/// The elements of sixteen queries that dropout keeps.
template <typename S>
struct Kept {
  Words first, second;  ///< bits of the queries
  const BlockDropout& dropout;

  PLIMSOLL_INLINE explicit Kept(const BlockDropout& rule) : first{}, second{}, dropout(rule) {}
  PLIMSOLL_INLINE Kept(const BlockDropout& rule, int64_t lane) : dropout(rule) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const uint64_t bits = query_bits(rule.seed, rule.first_query + lane + i);
      first[i] = static_cast<uint32_t>(bits);
      second[i] = static_cast<uint32_t>(bits >> 32);
    }
  }
  /// Returns the values of the key `key` of the block, 0 for those that are dropped.
  PLIMSOLL_INLINE VectorOf<S> of(const VectorOf<S>& values, int64_t key) const {
    const Words bits = element_bits(first, second, static_cast<uint32_t>(dropout.first_key + key));
    // bits < threshold, without signs
    const uint32_t threshold = dropout.rule.threshold;
    const Ints dropped =
        negative(reinterpret_cast<Ints>((~bits & threshold) | ((~bits | threshold) & (bits - threshold))));
    return select(__builtin_convertvector(dropped, Index<S>), VectorOf<S>{}, values);
  }
};

template <typename S, bool kDrops>
PLIMSOLL_INLINE Kept<S> kept_at(const BlockDropout& dropout, int64_t lane) {
  if constexpr (kDrops)
    return Kept<S>(dropout, lane);
  else
    return Kept<S>(dropout);
}

/// Runs softmax_block(). `kPlain`: no cap, no mask, and every query sees every key. `kDrops`: with dropout.
template <typename S, bool kPairs, bool kPlain, bool kDrops>
PLIMSOLL_INLINE void softmax_block_of(const Scores<S>& scores, S* numbers, S* result, int64_t width) {
  using V = VectorOf<S>;
  const ScoreBlock& block = scores.block;
  const int64_t lanes = block.lanes;
  const S factor = scores.factor, unit = static_cast<S>(kLog2E);
  const auto exponential = [&](int64_t key, int64_t lane, const V& now) __attribute__((always_inline)) {
    const V stored = load(static_cast<const S*>(scores.row(key, lane)));
    return power_of_two(V(((kPlain ? settled(V(stored * factor)) : stored) - now) * unit));
  };
  for (int64_t lane = 0; lane < lanes; lane += kLanes) {
    const Kept<S> kept_of = kept_at<S, kDrops>(block.dropout, lane);
    const V before = load(static_cast<const S*>(numbers) + lane);
    V maximum[2] = {before, before};
    if constexpr (kPlain) {
      V tops[4] = {before, before, before, before};
      int64_t key = 0;
      for (; key + 4 <= block.keys; key += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          tops[i] = larger(V(load(static_cast<const S*>(scores.row(key + i, lane))) * factor), tops[i]);
      for (; key < block.keys; ++key)
        tops[0] = larger(V(load(static_cast<const S*>(scores.row(key, lane))) * factor), tops[0]);
      maximum[0] = larger(tops[0], tops[1]);
      maximum[1] = larger(tops[2], tops[3]);
    } else {
      const Index<S> queries = lane_numbers<S>(lane);
      for (int64_t key = 0; key < block.keys; ++key) {
        const V product = load(static_cast<const S*>(scores.row(key, lane)));
        V score = product * scores.factor;
        if (block.cap > 0) score = lanes::tanh(V(product * scores.inner)) * scores.cap;
        score = scores.seen(scores.biased(score, key, lane), key, queries);
        store(scores.row(key, lane), score);
        maximum[0] = larger(score, maximum[0]);
      }
    }
    const V now = larger(maximum[0], maximum[1]);
    V sums[2]{};
    int64_t key = 0;
    for (; key + 2 <= block.keys; key += 2) {
      V even = exponential(key, lane, now);
      V odd = exponential(key + 1, lane, now);
      sums[0] += even;
      sums[1] += odd;
      if constexpr (kDrops) {
        even = kept_of.of(even, key);
        odd = kept_of.of(odd, key + 1);
      }
      if constexpr (kPairs) {
        store_pair(static_cast<Pair*>(block.scores) + key / 2 * lanes + lane, even, odd);
      } else {
        store(scores.row(key, lane), even);
        store(scores.row(key + 1, lane), odd);
      }
    }
    if (key < block.keys) {
      V last = exponential(key, lane, now);
      sums[0] += last;
      if constexpr (kDrops) last = kept_of.of(last, key);
      if constexpr (kPairs)
        store_pair(static_cast<Pair*>(block.scores) + key / 2 * lanes + lane, last, V{});
      else
        store(scores.row(key, lane), last);
    }
    const V less = power_of_two(V((before - now) * unit));
    store(numbers + lane, now);
    S* sum_at = numbers + lanes + lane;
    store(sum_at, load(static_cast<const S*>(sum_at)) * less + (sums[0] + sums[1]));
    bool moved = false;
    for (int i = 0; i < kLanes; ++i) moved |= before[i] != now[i];
    if (!moved) continue;
    for (int64_t d = 0; d < width; ++d) {
      S* at = result + d * lanes + lane;
      store(at, load(static_cast<const S*>(at)) * less);
    }
  }
}

template <typename S, bool kPairs>
PLIMSOLL_INLINE void softmax_any_block(const ScoreBlock& block, void* numbers, void* result, int64_t width) {
  const Scores<S> scores(block);
  S *all = static_cast<S*>(numbers), *results = static_cast<S*>(result);
  if (block.dropout.rule.threshold > 0)
    softmax_block_of<S, kPairs, false, true>(scores, all, results, width);
  else if (block.cap > 0 || block.bias != nullptr || scores.any_hidden())
    softmax_block_of<S, kPairs, false, false>(scores, all, results, width);
  else
    softmax_block_of<S, kPairs, true, false>(scores, all, results, width);
}

/// Computes probabilities and gradients of the products of a key with sixteen queries. A score's distance from the
/// logarithm of the sum is taken first, and converted to units of log 2 afterwards. The distance is small if both are
/// large, and so is its rounding.
template <typename S, bool kPlain, bool kDrops>
PLIMSOLL_INLINE void gradient_of(const Scores<S>& scores, int64_t key, int64_t lane, const Index<S>& queries,
                                 const Kept<S>& kept, const VectorOf<S>& log_sum, const VectorOf<S>& rest,
                                 const VectorOf<S>& shared, VectorOf<S>& probability, VectorOf<S>& gradient) {
  using V = VectorOf<S>;
  const V product = load(static_cast<const S*>(scores.row(key, lane)));
  const S scale = static_cast<S>(scores.block.scale), unit = static_cast<S>(kLog2E);
  if constexpr (kPlain) {
    probability = power_of_two(V((settled(V(product * scale)) - log_sum) * unit));
    gradient = (gradient - shared) * (probability * scale);
  } else {
    V distance = settled(V(product * scale)) - log_sum, slope = splat<V>(scale), share{};
    if (scores.block.cap > 0) {
      share = lanes::tanh(V(product * scores.inner));
      distance = share * static_cast<S>(scores.block.cap) - log_sum;
      slope = slope * (1 - share * share);
    }
    if (scores.block.split) {
      const V score = scores.block.cap > 0 ? V(share * static_cast<S>(scores.block.cap)) : V(product * scale);
      distance = (scores.biased(settled(score), key, lane) - log_sum) - rest;
    }
    probability = power_of_two(V(scores.seen(distance, key, queries) * unit));
    if constexpr (kDrops) {
      const S factor = static_cast<S>(scores.block.dropout.rule.factor);
      gradient = (kept.of(V(gradient * factor), key) - shared) * (probability * slope);
      probability = kept.of(V(probability * factor), key);
    } else {
      gradient = (gradient - shared) * (probability * slope);
    }
  }
}

template <typename S, bool kPairs, bool kPlain, bool kDrops>
PLIMSOLL_INLINE void gradient_block_of(const Scores<S>& scores, const S* numbers, S* gradients, Pair* gradient_pairs) {
  using V = VectorOf<S>;
  const ScoreBlock& block = scores.block;
  const int64_t lanes = block.lanes;
  for (int64_t lane = 0; lane < lanes; lane += kLanes) {
    const V log_sum = load(numbers + lane), shared = load(numbers + lanes + lane);
    const V rest = block.split ? load(numbers + 2 * lanes + lane) : V{};
    const Kept<S> kept = kept_at<S, kDrops>(block.dropout, lane);
    const Index<S> queries = lane_numbers<S>(lane);
    for (int64_t key = 0; key < block.keys; key += 2) {
      const bool two = key + 1 < block.keys;
      V probabilities[2]{}, parts[2]{};
      S* at[2] = {gradients + key * lanes + lane, gradients + (key + 1) * lanes + lane};
      parts[0] = load(static_cast<const S*>(at[0]));
      gradient_of<S, kPlain, kDrops>(scores, key, lane, queries, kept, log_sum, rest, shared, probabilities[0],
                                     parts[0]);
      if (two) {
        parts[1] = load(static_cast<const S*>(at[1]));
        gradient_of<S, kPlain, kDrops>(scores, key + 1, lane, queries, kept, log_sum, rest, shared, probabilities[1],
                                       parts[1]);
      }
      if constexpr (kPairs) {
        // A bfloat16 row takes the first half of a float32 row: lanes that are still to be read are behind it.
        store(reinterpret_cast<BFloat16*>(scores.row(key, 0)) + lane, probabilities[0]);
        store(reinterpret_cast<BFloat16*>(gradients + key * lanes) + lane, parts[0]);
        if (two) {
          store(reinterpret_cast<BFloat16*>(scores.row(key + 1, 0)) + lane, probabilities[1]);
          store(reinterpret_cast<BFloat16*>(gradients + (key + 1) * lanes) + lane, parts[1]);
        }
        store_pair(gradient_pairs + key / 2 * lanes + lane, parts[0], parts[1]);
      } else {
        store(scores.row(key, lane), probabilities[0]);
        store(at[0], parts[0]);
        if (two) {
          store(scores.row(key + 1, lane), probabilities[1]);
          store(at[1], parts[1]);
        }
      }
    }
  }
}

template <typename S, bool kPairs>
PLIMSOLL_INLINE void gradient_any_block(const ScoreBlock& block, const void* numbers, void* gradients,
                                        Pair* gradient_pairs) {
  const Scores<S> scores(block);
  const S* all = static_cast<const S*>(numbers);
  S* const given = static_cast<S*>(gradients);
  if (block.dropout.rule.threshold > 0)
    gradient_block_of<S, kPairs, false, true>(scores, all, given, gradient_pairs);
  else if (block.cap > 0 || block.split || block.bias != nullptr || scores.any_hidden())
    gradient_block_of<S, kPairs, false, false>(scores, all, given, gradient_pairs);
  else
    gradient_block_of<S, kPairs, true, false>(scores, all, given, gradient_pairs);
}

}  // namespace

#define PLIMSOLL_SOFTMAX(S, pairs, suffix)                                                                            \
  PLIMSOLL_VARIANTS(void, softmax_##suffix, (const ScoreBlock& block, void* numbers, void* result, int64_t width),    \
                    (block, numbers, result, width), { softmax_any_block<S, pairs>(block, numbers, result, width); }) \
  PLIMSOLL_VARIANTS(void, gradients_##suffix,                                                                         \
                    (const ScoreBlock& block, const void* numbers, void* gradients, Pair* gradient_pairs),            \
                    (block, numbers, gradients, gradient_pairs),                                                      \
                    { gradient_any_block<S, pairs>(block, numbers, gradients, gradient_pairs); })
PLIMSOLL_SOFTMAX(float, false, f32)
PLIMSOLL_SOFTMAX(float, true, pairs)
PLIMSOLL_SOFTMAX(double, false, f64)

void softmax_block(const ScoreBlock& block, void* numbers, void* result, int64_t width) {
  (block.is_double ? softmax_f64 : block.pairs ? softmax_pairs : softmax_f32)(block, numbers, result, width);
}
void softmax_gradient_block(const ScoreBlock& block, const void* numbers, void* gradients, Pair* gradient_pairs) {
  (block.is_double ? gradients_f64
   : block.pairs   ? gradients_pairs
                   : gradients_f32)(block, numbers, gradients, gradient_pairs);
}

namespace {

template <typename S>
void start(S* numbers, int64_t lanes) {
  // The start is not minus infinity: the distance from it to a row that sees nothing yet would be NaN.
  for (int64_t i = 0; i < lanes; ++i) numbers[i] = std::numeric_limits<S>::lowest();
  for (int64_t i = lanes; i < 2 * lanes; ++i) numbers[i] = 0;
}

template <typename S>
void finish(S* numbers, int64_t lanes, double keep_factor, bool split) {
  for (int64_t i = 0; i < lanes; ++i) {
    const double total = static_cast<double>(numbers[lanes + i]);
    if (split)
      numbers[2 * lanes + i] = total == 0 ? std::numeric_limits<S>::infinity() : static_cast<S>(std::log(total));
    else
      numbers[i] = static_cast<S>(static_cast<double>(numbers[i]) + std::log(total));
    numbers[lanes + i] = split && total == 0 ? S{0} : static_cast<S>(keep_factor / total);
  }
}

template <typename S, typename M>
Seen load_mask(const MaskBlock& mask, int64_t lanes, S* bias) {
  constexpr S hidden = -std::numeric_limits<S>::infinity();
  const auto value = [](const M& given) {
    if constexpr (std::is_same_v<M, bool>)
      return given ? S{0} : hidden;
    else
      return static_cast<S>(given);
  };
  bool any_seen = false, any_added = false;
  const auto note = [&](S added) {
    any_seen |= added != hidden;
    any_added |= added != 0;
    return added;
  };
  const M* const data = static_cast<const M*>(mask.data);
  if (mask.query_stride == 0) {
    for (int64_t j = 0; j < mask.keys; ++j)
      std::fill_n(bias + j * lanes, lanes, note(value(data[j * mask.key_stride])));
  } else {
    for (int64_t i = 0; i < lanes; ++i) {
      if (i >= mask.queries) {
        for (int64_t j = 0; j < mask.keys; ++j) bias[j * lanes + i] = 0;
        continue;
      }
      const M* const row = data + i * mask.query_stride;
      for (int64_t j = 0; j < mask.keys; ++j) bias[j * lanes + i] = note(value(row[j * mask.key_stride]));
    }
  }
  return !any_seen ? Seen::none : any_added ? Seen::some : Seen::all;
}

template <typename S>
Seen load_mask_of(const MaskBlock& mask, int64_t lanes, S* bias) {
  switch (mask.dtype) {
    case DType::float32:
      return load_mask<S, float>(mask, lanes, bias);
    case DType::float64:
      return load_mask<S, double>(mask, lanes, bias);
    case DType::bfloat16:
      return load_mask<S, BFloat16>(mask, lanes, bias);
    case DType::float16:
      return load_mask<S, c10::Half>(mask, lanes, bias);
    default:
      return load_mask<S, bool>(mask, lanes, bias);
  }
}

}  // namespace

void start_softmax(bool is_double, int64_t lanes, void* numbers) {
  if (is_double) return start(static_cast<double*>(numbers), lanes);
  start(static_cast<float*>(numbers), lanes);
}
void finish_softmax(bool is_double, int64_t lanes, void* numbers, double keep_factor, bool split) {
  if (is_double) return finish(static_cast<double*>(numbers), lanes, keep_factor, split);
  finish(static_cast<float*>(numbers), lanes, keep_factor, split);
}

Seen load_mask_block(const MaskBlock& mask, bool is_double, int64_t lanes, void* bias) {
  if (is_double) return load_mask_of(mask, lanes, static_cast<double*>(bias));
  return load_mask_of(mask, lanes, static_cast<float*>(bias));
}

}  // namespace plimsoll::ops
