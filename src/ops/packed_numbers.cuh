// Implements loads and stores of values in an optimizer's formats (ops/formats.h), eight a thread at a time.
//
// A block of 128 values belongs to half a warp. Lane l has the values 16 v + l for v = 0 .. 7. One counter yields their
// random bits, and their 8-bit codes are the bytes of two words. The values that half a warp reads in one access are
// contiguous, so memory is read in whole sectors in every format.
#pragma once

#include "ops/device_support.cuh"
#include "ops/formats.h"

namespace plimsoll::cuda {

constexpr int kEach = 8, kLanesOfBlock = 16;
constexpr int kBlocksOfWarp = kWarp / kLanesOfBlock;

/// The eight values of a thread, in a block of which `size` values exist: 128, fewer in the last block, or none.
struct Place {
  int32_t block = 0;
  int size = 0, lane = 0;

  __device__ int64_t element(int v) const {
    return int64_t{block} * static_cast<int>(ops::kDrawnAtATime) + v * kLanesOfBlock + lane;
  }
  __device__ bool has(int v) const { return v * kLanesOfBlock + lane < size; }
  __device__ bool any() const { return size > 0; }
};

/// Calls `visit(Place)` for all blocks of `count` values. This thread's block is the `index`th of `blocks_of_threads`.
/// Both halves of a warp call together, also if one of them has no values left. Launchers check `count` by
/// blocks_of_values().
template <typename Visit>
__device__ inline void for_each_place(int64_t count, unsigned index, unsigned blocks_of_threads, const Visit& visit) {
  constexpr int kSize = static_cast<int>(ops::kDrawnAtATime);
  const auto blocks = static_cast<int32_t>((count + kSize - 1) / kSize);
  const auto size_of_last = static_cast<int>(count - int64_t{blocks - 1} * kSize);
  const auto warps = static_cast<int32_t>(blocks_of_threads * blockDim.x / kWarp);
  const auto first = static_cast<int32_t>((index * blockDim.x + threadIdx.x) / kWarp);
  const int thread = static_cast<int>(threadIdx.x % kWarp);
  for (int32_t pair = first; pair * kBlocksOfWarp < blocks; pair += warps) {
    const int32_t block = pair * kBlocksOfWarp + thread / kLanesOfBlock, behind = blocks - 1 - block;
    visit(Place{block, behind > 0 ? kSize : behind == 0 ? size_of_last : 0, thread % kLanesOfBlock});
  }
}
/// Returns the number of blocks of `count` values, at most kMaxIndex: one tensor has fewer than 2^38 elements.
inline int32_t blocks_of_values(int64_t count) {
  return index32((count + ops::kDrawnAtATime - 1) / ops::kDrawnAtATime);
}
/// Calls `visit(Place)` with the whole grid as threads.
template <typename Visit>
__device__ inline void for_each_place(int64_t count, const Visit& visit) {
  for_each_place(count, blockIdx.x, gridDim.x, visit);
}

/// The random bits of a thread's values: ops::random_bits of each.
struct Drawn8 {
  uint32_t words[4];
  __device__ uint32_t operator[](int v) const { return (words[v / 2] >> (v % 2 * 16)) & 0xffffu; }
};
__device__ inline Drawn8 draw_eight(const ops::Draw& draw, const Place& at) {
  const int64_t block = draw.first_element / ops::kDrawnAtATime + at.block;
  const auto counter = static_cast<uint64_t>(block * kLanesOfBlock + at.lane);
  uint32_t words[1][4] = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  ops::threefry<uint32_t, 1>({draw.key[0], draw.key[1], draw.stream, 0}, words);
  return {{words[0][0], words[0][1], words[0][2], words[0][3]}};
}

template <typename T, typename Number>
__device__ inline void load_plain(const void* data, const Place& at, Number (&to)[kEach]) {
  const T* from = static_cast<const T*>(data);
#pragma unroll
  for (int v = 0; v < kEach; ++v) to[v] = at.has(v) ? static_cast<Number>(widen(from[at.element(v)])) : Number(0);
}
template <typename T, typename Number>
__device__ inline void store_plain(void* data, const Place& at, const Number (&from)[kEach]) {
  T* to = static_cast<T*>(data);
#pragma unroll
  for (int v = 0; v < kEach; ++v)
    if (at.has(v)) to[at.element(v)] = static_cast<T>(from[v]);
}

// The codes of 64 values are four a lane, in a word. The last codes, fewer than 64, are stored in order.
__device__ inline uint32_t load_codes8(const uint8_t* codes, const Place& at, int half) {
  if (half * 64 + 64 <= at.size)
    return reinterpret_cast<const uint32_t*>(codes + (at.element(half * 4) - at.lane))[at.lane];
  uint32_t word = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (at.has(half * 4 + k)) word |= static_cast<uint32_t>(codes[at.element(half * 4 + k)]) << (8 * k);
  return word;
}
__device__ inline void store_codes8(uint8_t* codes, const Place& at, int half, uint32_t word) {
  if (half * 64 + 64 <= at.size) {
    reinterpret_cast<uint32_t*>(codes + (at.element(half * 4) - at.lane))[at.lane] = word;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (at.has(half * 4 + k)) codes[at.element(half * 4 + k)] = static_cast<uint8_t>(word >> (8 * k));
}

/// Returns the byte of the values v and v + 1, for even v. It exists if any of its 32 values does.
__device__ inline int64_t byte_of_codes4(const Place& at, int v) {
  return int64_t{at.block} * static_cast<int>(ops::kDrawnAtATime / 2) + v * kLanesOfBlock / 2 + at.lane;
}
__device__ inline bool has_codes4(const Place& at, int v) {
  return v * kLanesOfBlock < at.size;
}

template <typename Small, bool squares>
__device__ inline void load8(const ops::Values& values, const Place& at, float (&to)[kEach]) {
  const float scale = at.any() ? ops::power_of_two(values.scales[at.block]) : 0.0f;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t word = load_codes8(static_cast<const uint8_t*>(values.data), at, half);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      to[half * 4 + k] =
          at.has(half * 4 + k) ? ops::numbers_of<Small, squares, 8, float>(word >> (8 * k), scale) : 0.0f;
  }
}
template <typename Small, bool squares>
__device__ inline void load4(const ops::Values& values, const Place& at, float (&to)[kEach]) {
  const auto* codes = static_cast<const uint8_t*>(values.data);
#pragma unroll
  for (int v = 0; v < kEach; v += 2) {
    const bool there = has_codes4(at, v);
    const uint32_t byte = there ? codes[byte_of_codes4(at, v)] : 0;
    const float scale = there ? ops::power_of_two(values.scales[int64_t{at.block} * 2 + v / 4]) : 0.0f;
    to[v] = at.has(v) ? ops::numbers_of<Small, squares, 4, float>(byte & 15u, scale) : 0.0f;
    to[v + 1] = at.has(v + 1) ? ops::numbers_of<Small, squares, 4, float>(byte >> 4, scale) : 0.0f;
  }
}

/// Returns the bits of the largest magnitude among the values [from, from + size) of the sixteen lanes. All lanes must
/// call.
template <int size>
__device__ inline uint32_t largest_magnitude(const float* from) {
  uint32_t most = 0;
#pragma unroll
  for (int v = 0; v < size; ++v) {
    const uint32_t magnitude = ops::bits_of(from[v]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
#pragma unroll
  for (int apart = kLanesOfBlock / 2; apart > 0; apart /= 2) {
    const uint32_t other = __shfl_xor_sync(kAllLanes, most, apart);
    most = other > most ? other : most;
  }
  return most;
}

template <typename Small, bool squares>
__device__ inline void store8(const ops::Values& values, const Place& at, const float (&from)[kEach],
                              const Drawn8& drawn) {
  const uint32_t scale = Small::scale(largest_magnitude<kEach>(from));
  if (at.lane == 0 && at.any()) values.scales[at.block] = static_cast<uint8_t>(scale);
  const float inverse = Small::inverse(scale);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      word |=
          ops::codes_of<Small, squares, 8, float>(from[half * 4 + k], inverse, drawn[half * 4 + k] << Small::kRandom)
          << (8 * k);
    store_codes8(static_cast<uint8_t*>(values.data), at, half, word);
  }
}
template <typename Small, bool squares>
__device__ inline void store4(const ops::Values& values, const Place& at, const float (&from)[kEach],
                              const Drawn8& drawn) {
  auto* codes = static_cast<uint8_t*>(values.data);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t scale = Small::scale(largest_magnitude<4>(from + half * 4));
    if (at.lane == 0 && has_codes4(at, half * 4))
      values.scales[int64_t{at.block} * 2 + half] = static_cast<uint8_t>(scale);
    const float inverse = Small::inverse(scale);
#pragma unroll
    for (int v = half * 4; v < half * 4 + 4; v += 2) {
      const auto code = [&](int n) {
        return ops::codes_of<Small, squares, 4, float>(from[n], inverse, drawn[n] << Small::kRandom);
      };
      const uint32_t byte = code(v) | (code(v + 1) << 4);
      if (has_codes4(at, v)) codes[byte_of_codes4(at, v)] = static_cast<uint8_t>(byte);
    }
  }
}

/// Loads a thread's values as floats; 0 from `count` on.
__device__ inline void load_floats(const ops::Values& values, const Place& at, float (&to)[kEach]) {
  switch (values.format) {
    case ops::Format::float32:
      return load_plain<float>(values.data, at, to);
    case ops::Format::bfloat16:
      return load_plain<bfloat16>(values.data, at, to);
    case ops::Format::float16:
      return load_plain<float16>(values.data, at, to);
    case ops::Format::float64:
      return load_plain<double>(values.data, at, to);
    case ops::Format::bits8:
      return values.squares ? load8<ops::E5M3, true>(values, at, to) : load8<ops::E4M3, false>(values, at, to);
    case ops::Format::bits4:
      return values.squares ? load4<ops::E3M1, true>(values, at, to) : load4<ops::E2M1, false>(values, at, to);
  }
}

__device__ inline void store_bfloat16(void* data, const Place& at, const float (&from)[kEach], bool stochastic,
                                      const Drawn8& drawn) {
  auto* to = static_cast<uint16_t*>(data);
#pragma unroll
  for (int v = 0; v < kEach; ++v)
    if (at.has(v))
      to[at.element(v)] =
          ops::nearest_bfloat16(stochastic ? ops::rounded_to_bfloat16<float>(from[v], drawn[v]) : from[v]);
}
__device__ inline void store_float16(void* data, const Place& at, const float (&from)[kEach], bool stochastic,
                                     const Drawn8& drawn) {
  auto* to = static_cast<float16*>(data);
#pragma unroll
  for (int v = 0; v < kEach; ++v)
    if (at.has(v))
      to[at.element(v)] = narrow<float16>(stochastic ? ops::rounded_to_float16<float>(from[v], drawn[v]) : from[v]);
}

/// Stores a thread's values. Values of 8 and 4 bits are rounded by `drawn`, those of 16 bits if `stochastic` is true.
/// All lanes must call; values from `count` on must be 0.
__device__ inline void store_floats(const ops::Values& values, const Place& at, const float (&from)[kEach],
                                    bool stochastic, const Drawn8& drawn) {
  switch (values.format) {
    case ops::Format::float32:
      return store_plain<float>(values.data, at, from);
    case ops::Format::bfloat16:
      return store_bfloat16(values.data, at, from, stochastic, drawn);
    case ops::Format::float16:
      return store_float16(values.data, at, from, stochastic, drawn);
    case ops::Format::float64:
      return store_plain<double>(values.data, at, from);
    case ops::Format::bits8:
      return values.squares ? store8<ops::E5M3, true>(values, at, from, drawn)
                            : store8<ops::E4M3, false>(values, at, from, drawn);
    case ops::Format::bits4:
      return values.squares ? store4<ops::E3M1, true>(values, at, from, drawn)
                            : store4<ops::E2M1, false>(values, at, from, drawn);
  }
}

// The same functions for values of type double. Values of float64 tensors keep all their bits; values of other formats
// are converted through float32.
__device__ inline void load_numbers(const ops::Values& values, const Place& at, float (&to)[kEach]) {
  load_floats(values, at, to);
}
__device__ inline void load_numbers(const ops::Values& values, const Place& at, double (&to)[kEach]) {
  if (values.format == ops::Format::float64) return load_plain<double>(values.data, at, to);
  float narrow[kEach];
  load_floats(values, at, narrow);
  for (int v = 0; v < kEach; ++v) to[v] = narrow[v];
}
__device__ inline void store_numbers(const ops::Values& values, const Place& at, const float (&from)[kEach],
                                     bool stochastic, const Drawn8& drawn) {
  store_floats(values, at, from, stochastic, drawn);
}
__device__ inline void store_numbers(const ops::Values& values, const Place& at, const double (&from)[kEach],
                                     bool stochastic, const Drawn8& drawn) {
  if (values.format == ops::Format::float64) return store_plain<double>(values.data, at, from);
  float narrow[kEach];
  for (int v = 0; v < kEach; ++v) narrow[v] = static_cast<float>(from[v]);
  store_floats(values, at, narrow, stochastic, drawn);
}

template <typename T>
__device__ inline void load_compensated(const ops::Weights& weights, const Place& at, float (&to)[kEach]) {
  float low[kEach];
  load_plain<T>(weights.data, at, to);
  load_plain<T>(weights.companion, at, low);
#pragma unroll
  for (int v = 0; v < kEach; ++v) to[v] += low[v];
}
template <typename T>
__device__ inline void store_compensated(const ops::Weights& weights, const Place& at, const float (&from)[kEach]) {
  auto *high = static_cast<T*>(weights.data), *low = static_cast<T*>(weights.companion);
#pragma unroll
  for (int v = 0; v < kEach; ++v) {
    if (!at.has(v)) continue;
    const T nearest = narrow<T>(from[v]);
    high[at.element(v)] = nearest;
    low[at.element(v)] = narrow<T>(from[v] - widen(nearest));
  }
}

/// Loads a parameter together with its companion.
__device__ inline void load_weights(const ops::Weights& weights, const Place& at, float (&to)[kEach]) {
  switch (weights.kind) {
    case ops::Companion::none:
      return load_floats({weights.data, nullptr, weights.format, false}, at, to);
    case ops::Companion::master:
      return load_plain<float>(weights.companion, at, to);
    case ops::Companion::compensation:
      return weights.format == ops::Format::float16 ? load_compensated<float16>(weights, at, to)
                                                    : load_compensated<bfloat16>(weights, at, to);
    case ops::Companion::remainder: {
      const auto *high = static_cast<const uint16_t*>(weights.data),
                 *low = static_cast<const uint16_t*>(weights.companion);
#pragma unroll
      for (int v = 0; v < kEach; ++v)
        to[v] = at.has(v) ? ops::joined<float>(high[at.element(v)], low[at.element(v)]) : 0.0f;
      return;
    }
  }
}
__device__ inline void store_weights(const ops::Weights& weights, const Place& at, const float (&from)[kEach],
                                     bool stochastic, const Drawn8& drawn) {
  switch (weights.kind) {
    case ops::Companion::master:
      store_plain<float>(weights.companion, at, from);
      return store_floats({weights.data, nullptr, weights.format, false}, at, from, false, drawn);
    case ops::Companion::none:
      return store_floats({weights.data, nullptr, weights.format, false}, at, from, stochastic, drawn);
    case ops::Companion::compensation:
      return weights.format == ops::Format::float16 ? store_compensated<float16>(weights, at, from)
                                                    : store_compensated<bfloat16>(weights, at, from);
    case ops::Companion::remainder: {
      auto *high = static_cast<uint16_t*>(weights.data), *low = static_cast<uint16_t*>(weights.companion);
#pragma unroll
      for (int v = 0; v < kEach; ++v) {
        if (!at.has(v)) continue;
        high[at.element(v)] = static_cast<uint16_t>(ops::upper_half<float>(from[v]));
        low[at.element(v)] = static_cast<uint16_t>(ops::lower_half<float>(from[v]));
      }
      return;
    }
  }
}
__device__ inline void load_weights(const ops::Weights& weights, const Place& at, double (&to)[kEach]) {
  load_plain<double>(weights.data, at, to);
}
__device__ inline void store_weights(const ops::Weights& weights, const Place& at, const double (&from)[kEach], bool,
                                     const Drawn8&) {
  store_plain<double>(weights.data, at, from);
}

}  // namespace plimsoll::cuda
