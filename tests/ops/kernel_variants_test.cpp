#include "ops/cpu_capability.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "ops/block_products_cpu.h"
#include "ops/formats.h"
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

}  // namespace
}  // namespace plimsoll::ops
