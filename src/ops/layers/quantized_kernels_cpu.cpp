#include "ops/layers/quantized_kernels_cpu.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"
#include "ops/layers/quantized_plan.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

constexpr std::array<float, 16> kNf4Levels = [] {
  std::array<float, 16> levels{};
  for (int i = 0; i < 16; ++i) levels[static_cast<size_t>(i)] = nf4_level(i);
  return levels;
}();

PLIMSOLL_INLINE float scale_of(const QuantizedWeight& weight, int64_t index) {
  if (!weight.second) return static_cast<const float*>(weight.scales)[index];
  const int64_t groups = div_up(weight.rows * quantized_blocks(weight.width), kScaleGroup);
  return double_scale(static_cast<const uint8_t*>(weight.scales)[index], weight.second[index / kScaleGroup],
                      weight.second[groups]);
}

// Eight values of a table of 16 are looked up at a time if the instruction set has a shuffle of eight.
#if PLIMSOLL_HAS_VARIANTS && !defined(__clang__)
#define PLIMSOLL_HAS_LOOK_UP 1
using EightWords = uint32_t __attribute__((vector_size(32)));

/// Returns the bits of the 16 levels times `scale`, rounded to T, each in a word.
template <typename T>
PLIMSOLL_INLINE lanes::Words level_bits(float scale) {
  const lanes::Floats levels = lanes::load(kNf4Levels.data()) * scale;
  const auto bits = reinterpret_cast<lanes::Words>(levels);
  if constexpr (sizeof(T) == 4) return bits;
  const lanes::Words nan = lanes::splat<lanes::Words>(0x7fc0U), rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return lanes::select(reinterpret_cast<lanes::Words>(lanes::is_nan(levels)), nan, rounded);
}

/// Stores the levels of codes of four bits, as many as fill vectors, and returns their number.
template <typename T>
PLIMSOLL_INLINE int64_t look_up(const uint8_t* codes, float scale, int64_t size, T* to) {
  const lanes::Words levels = level_bits<T>(scale);
  const auto low = lanes::read<EightWords>(&levels),
             high = lanes::read<EightWords>(reinterpret_cast<const uint32_t*>(&levels) + 8);
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    const EightWords shift = {0, 4, 8, 12, 16, 20, 24, 28};
    for (; i + 8 <= size; i += 8) {
      const EightWords code = ((EightWords{} + lanes::read<uint32_t>(codes + i / 2)) >> shift) & 15;
      const EightWords values = __builtin_shuffle(low, high, code);
      std::memcpy(static_cast<void*>(to + i), &values, sizeof(values));
    }
  } else {
    const EightWords shift = {0, 8, 16, 24, 0, 8, 16, 24}, first = {~0U, ~0U, ~0U, ~0U};
    for (; i + 16 <= size; i += 16) {
      const EightWords a = EightWords{} + lanes::read<uint32_t>(codes + i / 2),
                       b = EightWords{} + lanes::read<uint32_t>(codes + i / 2 + 4);
      const EightWords pair = lanes::select(first, a, b) >> shift;
      const EightWords values = __builtin_shuffle(low, high, pair & 15) | __builtin_shuffle(low, high, (pair >> 4) & 15)
                                                                              << 16;
      std::memcpy(static_cast<void*>(to + i), &values, sizeof(values));
    }
  }
  return i;
}
#else
#define PLIMSOLL_HAS_LOOK_UP 0
#endif

template <int native_bytes, typename T>
PLIMSOLL_INLINE void dequantize_nf4(const uint8_t* from, float scale, int64_t size, T* to) {
  int64_t i = 0;
#if PLIMSOLL_HAS_LOOK_UP
  constexpr bool words = std::is_same_v<T, float> || std::is_same_v<T, c10::BFloat16>;
  if constexpr (native_bytes >= 32 && words) i = look_up(from, scale, size, to);
#endif
  if (i == size) return;
  T levels[16];
  for (int level = 0; level < 16; ++level)
    levels[level] = static_cast<T>(kNf4Levels[static_cast<size_t>(level)] * scale);
  for (; i + 1 < size; i += 2) {
    to[i] = levels[from[i / 2] & 15];
    to[i + 1] = levels[from[i / 2] >> 4];
  }
  if (size % 2 == 1) to[size - 1] = levels[from[size / 2] & 15];
}

template <int native_bytes, typename T>
PLIMSOLL_INLINE void dequantize(const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count,
                                int64_t begin, int64_t end) {
  const int64_t blocks = quantized_blocks(weight.width), bytes = div_up(weight.width, 2);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = first; column < first + count; column += kQuantizedBlock) {
      const int64_t size = std::min(kQuantizedBlock, first + count - column);
      const float scale = scale_of(weight, row * blocks + column / kQuantizedBlock);
      T* to = row_of<T>(out, row) + column - first;
      if (weight.four_bits) {
        dequantize_nf4<native_bytes>(static_cast<const uint8_t*>(weight.codes) + row * bytes + column / 2, scale, size,
                                     to);
        continue;
      }
      const int8_t* from = static_cast<const int8_t*>(weight.codes) + row * weight.width + column;
      for (int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(static_cast<float>(from[i]) * scale);
    }
  }
}

template <typename T>
void quantize(const T* weight, int64_t stride, int64_t width, bool four_bits, void* codes, float* scales, int64_t begin,
              int64_t end) {
  const int64_t blocks = quantized_blocks(width), bytes = div_up(width, 2);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * kQuantizedBlock, size = std::min(kQuantizedBlock, width - first);
      float values[kQuantizedBlock];
      float largest = 0;
      bool finite = true;
      for (int64_t i = 0; i < size; ++i) {
        values[i] = static_cast<float>(weight[row * stride + first + i]);
        finite = finite && std::isfinite(values[i]);
        largest = std::max(largest, std::abs(values[i]));
      }
      float& scale = scales[row * blocks + block];
      scale = !finite ? std::numeric_limits<float>::quiet_NaN() : four_bits ? largest : largest / kInt8Most;
      const bool empty = !finite || scale == 0;
      // Values are divided by the block's largest, not by its scale, which may have been rounded.
      const auto share = [&](int64_t i) { return empty ? 0.0F : values[i] / largest; };
      if (four_bits) {
        uint8_t* to = static_cast<uint8_t*>(codes) + row * bytes + first / 2;
        for (int64_t i = 0; i < size; i += 2) {
          const uint8_t low = nearest_nf4(share(i)), high = i + 1 < size ? nearest_nf4(share(i + 1)) : 0;
          to[i / 2] = static_cast<uint8_t>(low | high << 4);
        }
      } else {
        int8_t* to = static_cast<int8_t*>(codes) + row * width + first;
        for (int64_t i = 0; i < size; ++i) to[i] = static_cast<int8_t>(nearest_whole(share(i) * kInt8Most));
      }
    }
  }
}

/// Calls `visit` with a null pointer of the C++ type.
template <typename Visit>
void with_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::float32:
      return visit(static_cast<float*>(nullptr));
    case DType::float64:
      return visit(static_cast<double*>(nullptr));
    case DType::bfloat16:
      return visit(static_cast<c10::BFloat16*>(nullptr));
    case DType::float16:
      return visit(static_cast<c10::Half*>(nullptr));
    default:
      throw InternalError("a weight is of a floating type");
  }
}

#define PLIMSOLL_DEQUANTIZE(T, suffix)                                                                            \
  PLIMSOLL_VARIANTS(                                                                                              \
      void, dequantize_##suffix,                                                                                  \
      (const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count, int64_t begin, int64_t end), \
      (weight, out, first, count, begin, end),                                                                    \
      { dequantize<kNativeBytes, T>(weight, out, first, count, begin, end); })
PLIMSOLL_DEQUANTIZE(float, f32)
PLIMSOLL_DEQUANTIZE(double, f64)
PLIMSOLL_DEQUANTIZE(c10::BFloat16, bf16)
PLIMSOLL_DEQUANTIZE(c10::Half, f16)
#undef PLIMSOLL_DEQUANTIZE

}  // namespace

void dequantize_rows(const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count, int64_t begin,
                     int64_t end) {
  check(first % kQuantizedBlock == 0, "quantized columns are taken apart from the start of a block");
  with_type(out.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_same_v<T, float>) dequantize_f32(weight, out, first, count, begin, end);
    if constexpr (std::is_same_v<T, double>) dequantize_f64(weight, out, first, count, begin, end);
    if constexpr (std::is_same_v<T, c10::BFloat16>) dequantize_bf16(weight, out, first, count, begin, end);
    if constexpr (std::is_same_v<T, c10::Half>) dequantize_f16(weight, out, first, count, begin, end);
  });
}

void quantize_rows(const ConstRows& weight, int64_t width, bool four_bits, void* codes, float* scales, int64_t begin,
                   int64_t end) {
  with_type(weight.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    quantize(static_cast<const T*>(weight.data), weight.stride, width, four_bits, codes, scales, begin, end);
  });
}

void quantize_scales(const float* scales, int64_t count, uint8_t* codes, float* second) {
  const int64_t groups = div_up(count, kScaleGroup);
  // The mean is of the finite scales: a block that is not finite makes its group NaN, not the whole weight.
  std::array<double, kScaleSums> sums{};
  int64_t finite_scales = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(scales[i])) continue;
    sums[static_cast<size_t>(i % kScaleSums)] += scales[i];
    ++finite_scales;
  }
  double sum = 0;
  for (double each : sums) sum += each;
  const float mean = finite_scales > 0 ? static_cast<float>(sum / static_cast<double>(finite_scales)) : 0;
  second[groups] = mean;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t begin = group * kScaleGroup, end = std::min(count, begin + kScaleGroup);
    float largest = 0;
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      finite = finite && std::isfinite(scales[i] - mean);
      largest = std::max(largest, std::abs(scales[i] - mean));
    }
    const float scale = finite ? largest / kInt8Most : std::numeric_limits<float>::quiet_NaN();
    second[group] = scale;
    for (int64_t i = begin; i < end; ++i) codes[i] = double_scale_code(scales[i], scale, mean, finite);
  }
}

}  // namespace plimsoll::ops
