// Tests products of 16-bit matrices in float32 blocks.
#include "ops/products_cpu.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/matmul_throughput.h"
#include "ops/ops_testing.h"
#include "rounds.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using plimsoll::testing::rounds;
using testing::expect_workspace;
using testing::measured_workspace;

constexpr at::ScalarType kHalves[] = {at::kBFloat16, at::kHalf};

// Whole numbers that a block's sums hold exactly: a result differs from the sum only by its one rounding.
Tensor whole_numbers(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randint(-8, 9, sizes, at::kFloat).to(type);
}

// Returns the same numbers in another memory layout.
Tensor laid_out(const Tensor& matrix, int how) {
  switch (how) {
    case 1:  // columns contiguous
      return matrix.t().contiguous().t();
    case 2: {  // rows with gaps, and not at the beginning
      const Tensor wide = at::zeros({matrix.size(0) + 1, matrix.size(1) + 5}, matrix.options());
      Tensor part = wide.narrow(0, 1, matrix.size(0)).narrow(1, 3, matrix.size(1));
      return part.copy_(matrix);
    }
    case 3: {  // neither rows nor columns contiguous
      const Tensor apart = at::zeros({matrix.size(0), 2 * matrix.size(1)}, matrix.options());
      Tensor part = apart.as_strided({matrix.size(0), matrix.size(1)}, {2 * matrix.size(1), 2});
      return part.copy_(matrix);
    }
    default:
      return matrix;
  }
}

TEST(Products, RandomOnesAreRoundedOnce) {
  const ProductsScope blocks(true);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  torch::manual_seed(seed);
  const auto drawn = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  for (int round = 0; round < rounds(60); ++round) {
    // Most are small; now and then one side is of several blocks.
    int64_t sizes[3];
    for (int64_t& size : sizes) size = drawn(1, 90);
    if (round % 6 == 0) sizes[drawn(0, 2)] = drawn(kProductBlock - 2, 2 * kProductBlock + 40);
    const auto [m, k, n] = sizes;
    const at::ScalarType type = kHalves[round % 2];
    const Tensor a = laid_out(whole_numbers({m, k}, type), static_cast<int>(drawn(0, 3))),
                 b = laid_out(whole_numbers({k, n}, type), static_cast<int>(drawn(0, 3)));
    const double beta = static_cast<double>(drawn(-2, 2)), alpha = static_cast<double>(drawn(1, 3));
    const int how = static_cast<int>(drawn(0, 4));
    const Tensor self = how == 4 ? whole_numbers({n}, type) : laid_out(whole_numbers({m, n}, type), how);
    SCOPED_TRACE(::testing::Message() << m << "x" << k << "x" << n << " beta " << beta << " alpha " << alpha);
    const Tensor product = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const Tensor want = product.to(type), added = (self.to(at::kDouble) * beta + product * alpha).to(type);
    EXPECT_TRUE(at::equal(at::mm(a, b), want));
    EXPECT_TRUE(at::equal(at::addmm(self, a, b, beta, alpha), added));
    Tensor out = laid_out(at::full({m, n}, NAN, a.options()), static_cast<int>(drawn(0, 3)));
    at::mm_out(out, a, b);
    EXPECT_TRUE(at::equal(out, want));
    out.fill_(NAN);
    at::addmm_out(out, self, a, b, beta, alpha);
    EXPECT_TRUE(at::equal(out, added));
    if (how == 4) continue;
    Tensor in_place = self;
    in_place.addmm_(a, b, beta, alpha);
    EXPECT_TRUE(at::equal(in_place, added));
  }
}

TEST(Products, BatchesAreEachAProduct) {
  const ProductsScope blocks(true);
  torch::manual_seed(3);
  for (const at::ScalarType type : kHalves) {
    const Tensor a = whole_numbers({5, 7, 40}, type), b = whole_numbers({5, 33, 40}, type).transpose(1, 2),
                 self = whole_numbers({7, 33}, type);
    const Tensor product = at::bmm(a.to(at::kDouble), b.to(at::kDouble));
    EXPECT_TRUE(at::equal(at::bmm(a, b), product.to(type)));
    EXPECT_TRUE(at::equal(at::baddbmm(self, a, b, 2, 3), (self.to(at::kDouble) * 2 + product * 3).to(type)));
  }
}

// A layer of libtorch also calls these matmuls.
TEST(Products, LayersGoThroughThem) {
  torch::manual_seed(4);
  const Tensor x = at::randn({3, 50, 300}).to(at::kBFloat16), weight = at::randn({70, 300}).to(at::kBFloat16),
               bias = at::randn({70}).to(at::kBFloat16);
  const auto exact = [&](bool biased) {
    const Tensor sums = at::mm(x.view({150, 300}).to(at::kFloat), weight.to(at::kFloat).t());
    return (biased ? sums + bias.to(at::kFloat) : sums).view({3, 50, 70});
  };
  const ProductsScope blocks(true);
  // One rounding: half a unit of the last place, at most 2^-8 of a number, and what float32's sums differ by.
  for (const bool biased : {false, true}) {
    const Tensor got = at::linear(x, weight, biased ? std::optional(bias) : std::nullopt).to(at::kFloat);
    EXPECT_TRUE(((got - exact(biased)).abs() <= exact(biased).abs() * 0x1.01p-8 + 1e-4).all().item<bool>());
  }
}

TEST(Products, TheirScratchIsStated) {
  const ProductsScope blocks(true);
  for (const at::ScalarType type : kHalves)
    for (const auto& [m, k, n] : {std::tuple{40, 70, 33}, {1100, 50, 20}, {30, 2100, 1300}}) {
      const Tensor a = at::randn({m, k}).to(type), b = at::randn({n, k}).to(type).t();
      expect_workspace("aten::mm", {a, b});
      expect_workspace("aten::addmm", {at::zeros({n}).to(type), a, b, 1, 1});
      expect_workspace("aten::bmm", {a.expand({2, m, k}), b.expand({2, k, n})});
    }
  EXPECT_LE(matmul_scratch(1 << 30, 1 << 30, 1 << 30), 12 << 20);
}

TEST(Products, OthersAreLibtorchs) {
  torch::manual_seed(5);
  const Tensor a = at::randn({40, 70}), b = at::randn({70, 30});
  {
    const ProductsScope blocks(true);
    EXPECT_TRUE(at::equal(at::mm(a, b), at::cpu::mm(a, b)));
    EXPECT_THROW(at::mm(a.to(at::kHalf), b.to(at::kBFloat16)), c10::Error);
    EXPECT_THROW(at::mm(a.to(at::kHalf), a.to(at::kHalf)), c10::Error);
    EXPECT_EQ(at::mm(at::zeros({0, 70}, at::kHalf), b.to(at::kHalf)).size(1), 30);
  }
  const ProductsScope libtorchs(false);
  const Tensor x = a.to(at::kBFloat16), y = b.to(at::kBFloat16);
  EXPECT_TRUE(at::equal(at::mm(x, y), at::cpu::mm(x, y)));
  EXPECT_EQ(measured_workspace("plimsoll::swiglu", {x}), 0);
}

}  // namespace
}  // namespace plimsoll::ops
