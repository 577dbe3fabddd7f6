// Tests that planning measures within its allowance: larger matmuls are estimated and not run.
#include "ops/workspace/matmul_estimate.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/measurement.h"
#include "device/kernel_scratch.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

using ops::LibraryMatmul;

View matrix(int64_t rows, int64_t columns) {
  return {kNoBuffer, DType::float32, 0, {rows, columns}, {columns, 1}};
}

LibraryMatmul product_of(int64_t m, int64_t k, int64_t n) {
  return {matrix(m, k), matrix(k, n), matrix(m, n)};
}

/// Seconds that only matmuls take, and which matmuls ran.
struct FakeMachine : MeasuringMachine {
  explicit FakeMachine(double flops = 1e11) : flops_per_second(flops) {}
  double now() override { return clock; }

  double flops_per_second, clock = 0;
  std::vector<LibraryMatmul> ran;
  MeasuringMachineScope scope{*this};

  MatmulSpeed expected() const { return {flops_per_second}; }
  ops::MatmulScratch measure(const std::function<int64_t(const LibraryMatmul&)>& scratch) {
    return [this, scratch](const LibraryMatmul& product) {
      clock += product_flops(product) / flops_per_second;
      ran.push_back(product);
      return scratch(product);
    };
  }
};

int64_t constant(const LibraryMatmul&) {
  return 4096;
}
int64_t copy_of_right(const LibraryMatmul& product) {
  return 4 * product.right.elements();
}

TEST(MeasureAllowance, ChargesTheClock) {
  FakeMachine machine;
  MeasureAllowance allowance({100, 3});
  EXPECT_TRUE(allowance.allows(100, 3));
  EXPECT_FALSE(allowance.allows(101, 0));
  {
    const MeasureAllowance::Charge charge(&allowance);
    machine.clock += 2;
  }
  EXPECT_DOUBLE_EQ(allowance.seconds_left(), 1);
  EXPECT_FALSE(allowance.allows(0, 1.5));
  {
    const MeasureAllowance::Charge charge(&allowance), none(nullptr);
    machine.clock += 2;
  }
  EXPECT_EQ(allowance.seconds_left(), 0);
}

TEST(MeasureAllowance, EstimatesAreItsOwn) {
  MeasureAllowance one, other;
  one.keep_estimate("a", 5);
  EXPECT_EQ(one.estimate("a"), 5);
  EXPECT_FALSE(one.estimate("b"));
  EXPECT_FALSE(other.estimate("a"));
}

TEST(MeasureAllowance, ThePlansLimits) {
  const MeasureAllowance allowance;
  EXPECT_EQ(allowance.limits().bytes, 256 * MiB);
  EXPECT_EQ(allowance.limits().seconds, 3);
}

TEST(MatmulEstimate, MeasuresWhatTheAllowanceAllows) {
  FakeMachine machine;
  MeasureAllowance allowance;
  MatmulSpeed speed = machine.expected();
  const LibraryMatmul product = product_of(512, 1024, 16000);  // 96 MiB and as much scratch, 0.17 s
  const MatmulScratchFigure figure = matmul_scratch_within(product, speed, allowance, machine.measure(copy_of_right));
  EXPECT_EQ(figure.bytes, 4 * 1024 * 16000);
  EXPECT_FALSE(figure.is_estimate);
  // Small parts come first, and tell the speed.
  ASSERT_GE(machine.ran.size(), 2u);
  for (size_t i = 1; i < machine.ran.size(); ++i)
    EXPECT_LE(product_flops(machine.ran[i]), 64 * product_flops(machine.ran[i - 1]));
  EXPECT_EQ(product_bytes(machine.ran.back()), product_bytes(product));
  EXPECT_EQ(speed.measured_flops, product_flops(product));
}

TEST(MatmulEstimate, ScratchCountsInTheLimitOfBytes) {
  FakeMachine machine;
  MatmulSpeed speed = machine.expected();
  const LibraryMatmul product = product_of(512, 1024, 32000);  // 191 MiB, and as much scratch
  MeasureAllowance small, large({.bytes = 400 * MiB});
  EXPECT_TRUE(matmul_scratch_within(product, speed, small, machine.measure(copy_of_right)).is_estimate);
  EXPECT_FALSE(matmul_scratch_within(product, speed, large, machine.measure(copy_of_right)).is_estimate);
}

// By the expected speed it would take a seventh of the time that is left, in truth 2.9 times the time.
TEST(MatmulEstimate, AMatmulThatTurnsOutSlowIsNotRun) {
  FakeMachine machine(5e9);
  MatmulSpeed speed{1e11};
  MeasureAllowance allowance({.bytes = GiB, .seconds = 3});
  const MatmulScratchFigure figure =
      matmul_scratch_within(product_of(2048, 2600, 4096), speed, allowance, machine.measure(constant));
  EXPECT_TRUE(figure.is_estimate);
  EXPECT_EQ(figure.bytes, 4096);
  EXPECT_LE(machine.clock, 2);
  EXPECT_NEAR(speed.flops_per_second, 5e9, 1e6);
}

TEST(MatmulEstimate, RunsNoMatmulAboveTheLimitOfBytes) {
  FakeMachine machine;
  MatmulSpeed speed = machine.expected();
  MeasureAllowance allowance({.seconds = 1000});
  for (const auto& [m, k, n] :
       {std::tuple{512, 4096, 151936}, {151936, 512, 4096}, {512, 151936, 4096}, {20000, 20000, 20000}}) {
    const MatmulScratchFigure figure =
        matmul_scratch_within(product_of(m, k, n), speed, allowance, machine.measure(constant));
    EXPECT_EQ(figure.bytes, 4096);
    EXPECT_TRUE(figure.is_estimate);
  }
  EXPECT_FALSE(machine.ran.empty());
  for (const LibraryMatmul& each : machine.ran) EXPECT_LE(product_bytes(each), 64 * MiB);
}

TEST(MatmulEstimate, ManyMatmulsKeepTheLimitOfSeconds) {
  FakeMachine machine;
  MatmulSpeed speed{4 * machine.flops_per_second};  // the machine has a quarter of it
  MeasureAllowance allowance;
  for (int64_t i = 0; i < 300; ++i) {
    const LibraryMatmul product = i % 2 == 0 ? product_of(200 + i, 4096, 128256) : product_of(200 + i, 1024, 16000);
    const MatmulScratchFigure figure = matmul_scratch_within(product, speed, allowance, machine.measure(constant));
    EXPECT_TRUE(figure.bytes == 4096 || figure.bytes == matmul_scratch_bound(product));
  }
  EXPECT_LE(machine.clock, 3);
  EXPECT_GT(machine.clock, 1);
}

TEST(MatmulEstimate, WithoutTimeItIsTheUpperBound) {
  FakeMachine machine;
  MatmulSpeed speed = machine.expected();
  MeasureAllowance allowance({.seconds = 0});
  const LibraryMatmul product = product_of(512, 1024, 32000);
  const MatmulScratchFigure figure = matmul_scratch_within(product, speed, allowance, machine.measure(constant));
  EXPECT_EQ(figure.bytes, product_bytes(product));
  EXPECT_TRUE(figure.is_estimate);
  EXPECT_TRUE(machine.ran.empty());
}

TEST(MatmulEstimate, FollowsTheSizesThatScratchGrowsWith) {
  const std::vector<std::function<int64_t(const LibraryMatmul&)>> rules = {
      constant,
      copy_of_right,
      [](const LibraryMatmul& product) { return 4 * product.left.elements(); },
      [](const LibraryMatmul& product) { return 4 * product.result.elements(); },
      [](const LibraryMatmul& product) { return 4 * product.result.elements() + 64 * product.left.sizes[0]; },
      [](const LibraryMatmul& product) { return 2048 * std::min<int64_t>(product.left.sizes[1], 2048); },
      [](const LibraryMatmul&) { return int64_t{0}; },
  };
  for (size_t rule = 0; rule < rules.size(); ++rule)
    for (const auto& [m, k, n] : {std::tuple{512, 4096, 151936},
                                  {50257, 320, 1000},
                                  {512, 65024, 3000},
                                  {20000, 300, 30000},
                                  {12000, 15000, 18000}}) {
      const LibraryMatmul product = product_of(m, k, n);
      const auto estimate = estimated_matmul_scratch(product, 4096, rules[rule]);
      ASSERT_TRUE(estimate);
      const double exact = static_cast<double>(rules[rule](product));
      EXPECT_GE(static_cast<double>(*estimate), exact) << rule << " " << m << " " << k << " " << n;
      // The larger part has up to a quarter more of each size that is cut.
      EXPECT_LE(static_cast<double>(*estimate), 1.6 * exact + 1) << rule << " " << m << " " << k << " " << n;
    }
}

TEST(MatmulEstimate, GrowthOfBlocksIsNotThatOfACopy) {
  const LibraryMatmul product = product_of(512, 65024, 4096);
  const auto blocks = [](const LibraryMatmul& part) { return 128 * std::min<int64_t>(part.left.sizes[1], 2048); };
  EXPECT_EQ(estimated_matmul_scratch(product, 2048, blocks), 128 * 2048);
}

// oneDNN's scratch depends on both.
TEST(MatmulEstimate, PartsKeepStridesAndRemainders) {
  const LibraryMatmul product = product_of(208, 1000, 50257);
  std::vector<LibraryMatmul> parts;
  EXPECT_TRUE(estimated_matmul_scratch(product, 2048, [&](const LibraryMatmul& part) {
    parts.push_back(part);
    return 64;
  }));
  ASSERT_EQ(parts.size(), 3u);
  for (const LibraryMatmul& part : parts) {
    EXPECT_EQ(part.left.sizes, product.left.sizes);
    EXPECT_EQ(part.right.strides, product.right.strides);
    EXPECT_EQ(part.result.strides, product.result.strides);
  }
  EXPECT_EQ(parts[0].right.sizes, (std::vector<int64_t>{1000, 2048 + 50257 % 1024}));
  EXPECT_EQ(parts[1].result.sizes, (std::vector<int64_t>{208, 2048}));
  EXPECT_EQ(parts[2].result.sizes, (std::vector<int64_t>{208, 1024}));
}

TEST(MatmulEstimate, SmallMatmulsHaveNoParts) {
  EXPECT_FALSE(estimated_matmul_scratch(product_of(256, 256, 511), 256, constant));
}

}  // namespace
}  // namespace plimsoll
