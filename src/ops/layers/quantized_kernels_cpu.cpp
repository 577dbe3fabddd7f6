#include "ops/layers/quantized_kernels_cpu.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/layers/quantized_plan.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

float scale_of(const QuantizedWeight& weight, int64_t index) {
  if (!weight.second) return static_cast<const float*>(weight.scales)[index];
  const int64_t groups = div_up(weight.rows * quantized_blocks(weight.width), kScaleGroup);
  return double_scale(static_cast<const uint8_t*>(weight.scales)[index], weight.second[index / kScaleGroup],
                      weight.second[groups]);
}

template <typename T>
void dequantize(const QuantizedWeight& weight, T* out, int64_t stride, int64_t first, int64_t count, int64_t begin,
                int64_t end) {
  const int64_t blocks = quantized_blocks(weight.width), bytes = div_up(weight.width, 2);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t column = first; column < first + count; column += kQuantizedBlock) {
      const int64_t size = std::min(kQuantizedBlock, first + count - column);
      const float scale = scale_of(weight, row * blocks + column / kQuantizedBlock);
      T* to = out + row * stride + column - first;
      if (weight.four_bits) {
        T levels[16];
        for (int i = 0; i < 16; ++i) levels[i] = static_cast<T>(nf4_level(i) * scale);
        const uint8_t* from = static_cast<const uint8_t*>(weight.codes) + row * bytes + column / 2;
        for (int64_t i = 0; i + 1 < size; i += 2) {
          to[i] = levels[from[i / 2] & 15];
          to[i + 1] = levels[from[i / 2] >> 4];
        }
        if (size % 2 == 1) to[size - 1] = levels[from[size / 2] & 15];
      } else {
        const int8_t* from = static_cast<const int8_t*>(weight.codes) + row * weight.width + column;
        for (int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(static_cast<float>(from[i]) * scale);
      }
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

}  // namespace

void dequantize_rows(const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count, int64_t begin,
                     int64_t end) {
  check(first % kQuantizedBlock == 0, "quantized columns are taken apart from the start of a block");
  with_type(out.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    dequantize(weight, static_cast<T*>(out.data), out.stride, first, count, begin, end);
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
