#include "ops/cpu_capability.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/block_products_cpu.h"
#include "ops/formats.h"
#include "ops/layers/quantized_kernels_cpu.h"
#include "ops/layers/quantized_plan.h"
#include "ops/optimizer/update_op.h"

namespace plimsoll::ops {
namespace {

constexpr CpuCapability kAll[] = {CpuCapability::baseline, CpuCapability::avx2, CpuCapability::avx512};

// Tests are compiled without the pass that makes one instruction of a multiplication and a subtraction.
#pragma GCC push_options
#pragma GCC optimize("O2")
PLIMSOLL_VARIANTS(float, multiplied_and_subtracted, (float a, float b), (a, b), { return a * a - b; })
#pragma GCC pop_options

// One rounding with fused multiplications and additions, two without.
TEST(KernelVariants, TheOneAskedForRuns) {
  const float a = 1 + 0x1p-12f, b = 1 + 0x1p-11f;
  for (const CpuCapability requested : kAll) {
    const CpuCapabilityScope scope(requested);
    EXPECT_EQ(multiplied_and_subtracted(a, b), cpu_capability() == CpuCapability::baseline ? 0 : 0x1p-24f)
        << name_of(requested);
  }
}

TEST(KernelVariants, TilesAndPairsAreOfAvx512) {
  for (const CpuCapability requested : kAll) {
    const CpuCapabilityScope scope(requested);
    EXPECT_EQ(has_wide_tiles(), cpu_capability() == CpuCapability::avx512);
    if (cpu_capability() != CpuCapability::avx512) {
      EXPECT_FALSE(has_pair_products());
    }
  }
}

// The promise of docs/optimizers.md: an update has the same bits on every machine.
TEST(KernelVariants, UpdatesAreTheSameToTheBit) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const int64_t count : {1, 15, 64, 1000}) {
    const auto numbers = [&] {
      std::vector<float> made(static_cast<size_t>(count));
      for (float& x : made) x = normal(random);
      return made;
    };
    const std::vector<float> parameter = numbers(), gradient = numbers(), mean = numbers();
    std::vector<float> square = numbers();
    for (float& x : square) x *= x;
    std::vector<std::vector<float>> results;
    for (const CpuCapability requested : kAll) {
      const CpuCapabilityScope scope(requested);
      std::vector<float> p = parameter, m = mean, v = square;
      const double constants[] = {0.9, 0.95, 0.1, 1e-8};
      adamw_update(p.data(), gradient.data(), m.data(), v.data(), count,
                   adamw_step<float>({.step = 3, .learning_rate = 1e-2, .grad_scale = 3}, constants));
      p.insert(p.end(), m.begin(), m.end());
      p.insert(p.end(), v.begin(), v.end());
      p.push_back(static_cast<float>(sum_of_squares(gradient.data(), count)));
      results.push_back(std::move(p));
    }
    for (const auto& result : results)
      for (size_t i = 0; i < result.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(result[i]), std::bit_cast<uint32_t>(results[0][i])) << count << " at " << i;
  }
}

// The same holds for the format of its state.
TEST(KernelVariants, FormatsAreTheSameToTheBit) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (const Format format : {Format::bits8, Format::bits4, Format::bfloat16, Format::float16})
    for (const bool squares : {false, true})
      for (const int64_t count : {1, 100, 512}) {
        std::vector<float> from(kChunk);
        for (float& x : from) x = squares ? std::abs(normal(random)) : normal(random);
        std::vector<std::vector<uint8_t>> codes;
        std::vector<std::vector<float>> back;
        for (const CpuCapability requested : kAll) {
          const CpuCapabilityScope scope(requested);
          std::vector<uint8_t>& bytes = codes.emplace_back(2 * kChunk + kChunk);
          const Values values{bytes.data(), bytes.data() + 2 * kChunk, format, squares};
          pack(values, 0, count, from.data(), Rounding{true, Draw{{3, 4}, 5}, nullptr});
          unpack(values, 0, count, back.emplace_back(kChunk).data());
        }
        for (size_t i = 1; i < codes.size(); ++i) {
          EXPECT_EQ(codes[i], codes[0]);
          EXPECT_EQ(back[i], back[0]);
        }
      }
}

/// Returns dequantized rows, each with a number behind its end that must stay.
template <typename T>
std::vector<T> dequantized(const QuantizedWeight& weight, DType dtype, int64_t first, int64_t count) {
  std::vector<T> made(static_cast<size_t>(weight.rows * (count + 1)), static_cast<T>(7));
  dequantize_rows(weight, {made.data(), dtype, count + 1}, first, count, 0, weight.rows);
  return made;
}

template <typename T>
void expect_dequantized(const QuantizedWeight& weight, DType dtype, int64_t first) {
  const int64_t count = weight.width - first, blocks = quantized_blocks(weight.width);
  std::vector<T> want(static_cast<size_t>(weight.rows * (count + 1)), static_cast<T>(7));
  for (int64_t row = 0; row < weight.rows; ++row)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = first + i, block = row * blocks + column / kQuantizedBlock;
      const float scale = weight.second ? double_scale(static_cast<const uint8_t*>(weight.scales)[block],
                                                       weight.second[block / kScaleGroup],
                                                       weight.second[div_up(weight.rows * blocks, kScaleGroup)])
                                        : static_cast<const float*>(weight.scales)[block];
      const auto* codes = static_cast<const uint8_t*>(weight.codes);
      const float value = weight.four_bits
                              ? nf4_level(codes[row * div_up(weight.width, 2) + column / 2] >> (column % 2 * 4) & 15)
                              : static_cast<float>(static_cast<int8_t>(codes[row * weight.width + column]));
      want[static_cast<size_t>(row * (count + 1) + i)] = static_cast<T>(value * scale);
    }
  for (const CpuCapability requested : kAll) {
    const CpuCapabilityScope scope(requested);
    const std::vector<T> got = dequantized<T>(weight, dtype, first, count);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
      ASSERT_EQ(std::isnan(a), std::isnan(b)) << i;
      if (std::isnan(a)) continue;
      ASSERT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << i << " " << name_of(requested);
    }
  }
}

// Whole vectors of codes and what is left of them, with one scale of a block that is not finite.
TEST(KernelVariants, DequantizedWeightsAreTheSameToTheBit) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const int64_t width : {1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 72, 257})
    for (const bool four_bits : {true, false})
      for (const bool twice : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << width << (four_bits ? " nf4" : " int8") << (twice ? ", double scales" : ""));
        constexpr int64_t kRows = 3;
        std::vector<float> numbers(static_cast<size_t>(kRows * width)),
            scales(static_cast<size_t>(kRows * quantized_blocks(width)));
        for (float& x : numbers) x = normal(random);
        std::vector<uint8_t> codes(numbers.size()), codes_of_scales(scales.size());
        std::vector<float> second(static_cast<size_t>(div_up(std::ssize(scales), kScaleGroup) + 1));
        quantize_rows({numbers.data(), DType::float32, width}, width, four_bits, codes.data(), scales.data(), 0, kRows);
        quantize_scales(scales.data(), std::ssize(scales), codes_of_scales.data(), second.data());
        if (!twice) scales.back() = width % 2 == 0 ? std::numeric_limits<float>::infinity() : -std::nanf("");
        const QuantizedWeight weight{.codes = codes.data(),
                                     .scales = twice ? static_cast<const void*>(codes_of_scales.data()) : scales.data(),
                                     .second = twice ? second.data() : nullptr,
                                     .rows = kRows,
                                     .width = width,
                                     .four_bits = four_bits};
        for (const int64_t first : {int64_t{0}, width > kQuantizedBlock ? kQuantizedBlock : 0}) {
          expect_dequantized<float>(weight, DType::float32, first);
          expect_dequantized<double>(weight, DType::float64, first);
          expect_dequantized<c10::BFloat16>(weight, DType::bfloat16, first);
          expect_dequantized<c10::Half>(weight, DType::float16, first);
        }
      }
}

}  // namespace
}  // namespace plimsoll::ops
