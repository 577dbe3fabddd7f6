// Tests numbers of 8 and 4 bits, stochastic rounding, gradient accumulators.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/op_support.h"
#include "ops/ops_testing.h"
#include "ops/optimizer/optimizer_testing.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr FormatCase kEight = kStateFormats[3], kFour = kStateFormats[4];

// The known answers of the Random123 library: whole numbers, the same on every processor.
TEST(CounterRandom, GivesThreefrysKnownAnswers) {
  uint32_t x[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, ones[1][4] = {{~0u, ~0u, ~0u, ~0u}};
  threefry({0, 0, 0, 0}, x);
  for (const auto& words : x)
    EXPECT_THAT(words, ::testing::ElementsAre(0x531c7e4fu, 0x39491ee5u, 0x2c855a92u, 0x3d6abf9au));
  threefry({~0u, ~0u, ~0u, ~0u}, ones);
  EXPECT_THAT(ones[0], ::testing::ElementsAre(0xc4189358u, 0x1c9cc83au, 0xd5881c67u, 0x6a0a89e0u));
}

// All codes at several scales, and at the place in memory that each has.
TEST(SmallFloats, AreReadByTheirDefinition) {
  for (const FormatCase& format : {kEight, kFour}) {
    const int codes = format.format == Format::bits8 ? 256 : 16;
    for (const bool squares : {false, true}) {
      const reference::SmallFloat small = reference::small_float(format.format, squares);
      const Tensor like = at::zeros({256});
      for (const int scale : {0, 1, 60, 127, 130, 200}) {
        const Packed packed = zeros(format, like);
        packed.scales.fill_(scale);
        auto* bytes = static_cast<uint8_t*>(packed.values.mutable_data_ptr());
        for (int i = 0; i < 256; ++i) {
          if (format.format == Format::bits8)
            bytes[place_of_bits8(i, 256)] = static_cast<uint8_t>(i);
          else
            bytes[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(i % 16 << (i / 16 % 2 * 4));
        }
        const std::vector<float> got = vector_of(unpacked(packed, like, squares));
        for (int i = 0; i < 256; ++i) {
          const double want = scale == 0 ? 0 : std::ldexp(small.value(i % codes), scale - 127);
          EXPECT_EQ(got[static_cast<size_t>(i)], want) << format.name << " " << squares << " " << scale << " " << i;
        }
      }
    }
  }
}

TEST(SmallFloats, OfTheFirstMeanAreLibtorchsFloat8) {
  const Tensor codes = at::arange(256, at::kInt).to(at::kByte);
  const Tensor expected = codes.view(at::kFloat8_e4m3fn).to(at::kFloat);
  Tensor placed = at::empty_like(codes);
  for (int64_t i = 0; i < 256; ++i) placed[place_of_bits8(i, 256)] = i;
  const Tensor ours = unpacked({placed, at::full({2}, 127, at::kByte)}, codes, false);
  for (int64_t i = 0; i < 256; ++i)
    if ((i & 127) != 127) {  // NaN there
      EXPECT_EQ(ours[i].item<float>(), expected[i].item<float>()) << i;
    }
}

/// Numbers over many powers of two, some of them zero.
Tensor spread(int64_t count, double decades = 4) {
  const Tensor x = torch::randn({count}) * at::pow(10.0, torch::rand({count}) * -decades);
  return at::where(torch::rand({count}) < 0.05, at::zeros({}), x);
}

TEST(Accumulator, IsPackedAsTheReferencePacks) {
  torch::manual_seed(1);
  for (const int64_t count : {1, 15, 16, 127, 128, 129, 511, 512, 700, 5000}) {
    for (const double size : {1.0, 1e-30, 1e-44, 1e20}) {
      const Tensor x = spread(count, 8) * size;
      const Packed sum = zeros(kEight, x);
      accumulate_(sum, x, /*overwrite=*/true, generator(7));
      const reference::Block want = reference::pack(Format::bits8, false, vector_of(x), draw_of(7, 0));
      EXPECT_EQ(scales_of_packed(sum), want.scales) << count << " " << size;
      EXPECT_EQ(codes_of(sum, Format::bits8, count), want.codes) << count << " " << size;
    }
  }
}

TEST(Accumulator, AddsWhatItIsGiven) {
  torch::manual_seed(2);
  for (const FormatCase& format : kStateFormats) {
    if (format.format == Format::bits4) continue;
    const Tensor x = torch::randn({3, 333});
    const Packed sum = zeros(format, x);
    sum.values.fill_(1);  // and is forgotten
    for (int i = 0; i < 4; ++i) accumulate_(sum, x.to(i % 2 ? at::kBFloat16 : at::kFloat), i == 0, generator(i));
    const double error = format.format == Format::float32 ? 1e-2 : format.format == Format::bits8 ? 0.15 : 2e-2;
    expect_close(numbers(sum, x, false), 4 * x, error, format.name);
  }
}

// The mean of many roundings is the number, also for a number far below the spacing near the block's largest.
TEST(StochasticRounding, IsRightOnAverage) {
  for (const FormatCase& format : kStateFormats) {
    if (format.format == Format::float32 || format.format == Format::bits4) continue;
    Tensor x = torch::tensor({1.03f, -0.77f, 0.0021f, 3e-6f, -1e-6f, 0.0f, 3.99f, 1e-3f});
    Tensor mean = at::zeros({8}, at::kDouble);
    constexpr int kTurns = 4000;
    for (int i = 0; i < kTurns; ++i) {
      const Packed sum = zeros(format, x);
      accumulate_(sum, x, true, generator(static_cast<uint64_t>(i)));
      mean += numbers(sum, x, false).to(at::kDouble) / kTurns;
    }
    const double spacing = format.format == Format::bits8 ? 0.125 : format.format == Format::bfloat16 ? 0.008 : 0.001;
    for (int64_t i = 0; i < 8; ++i) {
      const double want = x[i].item<double>();
      // Five deviations of the mean of numbers that are at most one spacing apart.
      const double step = std::max(std::abs(want) * spacing, format.format == Format::bits8 ? 4.0 / 448 / 512 : 1e-7);
      EXPECT_NEAR(mean[i].item<double>(), want, 5 * 0.5 * step / std::sqrt(kTurns)) << format.name << " " << i;
    }
  }
}

// A gradient of ones adds 1/512 of the last bit's worth at a time.
TEST(StochasticRounding, KeepsWhatRoundingToNearestLoses) {
  const Tensor small = at::full({4096}, 1.0f / 512);
  const Packed sum{at::ones({4096}, at::kBFloat16)};
  for (uint64_t i = 0; i < 64; ++i) accumulate_(sum, small, false, generator(i));
  EXPECT_NEAR(sum.values.to(at::kFloat).mean().item<double>(), 1.125, 0.002);
  Tensor nearest = at::ones({4096}, at::kBFloat16);
  for (int i = 0; i < 64; ++i) nearest += small.to(at::kBFloat16);
  EXPECT_EQ(nearest.to(at::kFloat).max().item<double>(), 1.0);
}

TEST(Accumulator, OfFloat64AddsWithoutRoundingToFloat32) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({3, 333}, at::kDouble), y = torch::randn({3, 333}, at::kDouble);
  const Packed sum{at::full({3, 333}, 7.0, at::kDouble)};
  accumulate_(sum, x, /*overwrite=*/true);
  EXPECT_TRUE(torch::equal(sum.values, x));
  accumulate_(sum, y, /*overwrite=*/false);
  EXPECT_TRUE(torch::equal(sum.values, x + y));
}

TEST(Accumulator, SaysWhatIsNotFinite) {
  for (const double bad : std::vector<double>{INFINITY, -INFINITY, NAN}) {
    for (const int64_t place : {0, 130, 299}) {
      Tensor x = torch::randn({300});
      x[place] = bad;
      const Packed sum = zeros(kEight, x);
      accumulate_(sum, torch::randn({300}), true, generator(1));
      EXPECT_TRUE(std::isfinite(block_norm(sum.values, sum.scales).item<double>()));
      accumulate_(sum, x, false, generator(2));
      EXPECT_FALSE(std::isfinite(block_norm(sum.values, sum.scales).item<double>())) << bad << " at " << place;
      EXPECT_EQ(sum.scales[place / 128].item<int>(), kNotFinite);
      // Once so, it stays so.
      accumulate_(sum, torch::randn({300}), false, generator(3));
      EXPECT_FALSE(std::isfinite(block_norm(sum.values, sum.scales).item<double>()));
    }
  }
}

TEST(Accumulator, HasTheNormOfItsNumbers) {
  torch::manual_seed(3);
  for (const int64_t count : {1, 100, 128, 5000, 200000}) {
    const Tensor x = spread(count);
    const Packed sum = zeros(kEight, x);
    accumulate_(sum, x, true, generator(5));
    const double want = unpacked(sum, x, false).to(at::kDouble).norm().item<double>();
    Tensor norms[2];
    for (int threads : {1, 2}) {
      at::set_num_threads(threads);
      norms[threads - 1] = block_norm(sum.values, sum.scales);
    }
    EXPECT_NEAR(norms[0].item<double>(), want, 1e-6 * want);
    EXPECT_TRUE(same_bytes(norms[0], norms[1]));
    expect_meta_agrees("plimsoll::block_norm", {sum.values, sum.scales});
    expect_workspace("plimsoll::block_norm", {sum.values, sum.scales});
  }
}

TEST(Accumulator, TakesAGradientOfAnotherOrder) {
  const Tensor x = torch::randn({40, 70});
  const Packed sum{at::zeros({40, 70})}, same{at::zeros({40, 70})};
  const Tensor turned = x.t().contiguous().t();
  accumulate_(sum, turned, false);
  accumulate_(same, x, false);
  EXPECT_TRUE(at::equal(sum.values, same.values));
  expect_workspace("plimsoll::accumulate_", {sum.values, c10::IValue(), turned, false});
  expect_workspace("plimsoll::accumulate_", {sum.values, c10::IValue(), x, false});
}

TEST(Accumulator, RefusesWhatDoesNotBelongTogether) {
  const Tensor x = torch::randn({300});
  const Packed eight = zeros(kEight, x);
  EXPECT_THAT(refusal_of([&] { accumulate_(eight, torch::randn({301}), false); }), ::testing::HasSubstr("take 301"));
  EXPECT_THAT(refusal_of([&] {
                accumulate_({eight.values, at::zeros({2}, at::kByte)}, x, false);
              }),
              ::testing::HasSubstr("it needs 3"));
  EXPECT_THAT(refusal_of([&] { accumulate_(zeros(kFour, x), x, false); }), ::testing::HasSubstr("4 bits"));
  EXPECT_THAT(refusal_of([&] { accumulate_({at::zeros({300})}, x.to(at::kInt), false); }), ::testing::HasSubstr("Int"));
  EXPECT_THAT(refusal_of([&] {
                call("plimsoll::accumulate_", {at::zeros({300}, at::kBFloat16), c10::IValue(), x, false});
              }),
              ::testing::HasSubstr("generator"));
}

}  // namespace
}  // namespace plimsoll::ops
