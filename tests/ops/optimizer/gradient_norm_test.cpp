#include "ops/optimizer/gradient_norm.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "ops/ops_testing.h"
#include "test_files.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// None is a multiple of a vector's width, and the last three take more than one block of the sum (2^16 elements).
constexpr int64_t kCounts[] = {1, 3, 7, 17, 33, 129, 1001, (1 << 16) + 1, (1 << 17) - 1, (1 << 17) + 3};

struct NormResult {
  double norm, skipped;
};

/// The norm is written at 1 of 3, and its neighbors must stay.
NormResult norm_of(const Tensor& gradient, double skipped_before = 0) {
  const Tensor norms = torch::full({3}, -1.0, at::kFloat), skipped = torch::full({}, skipped_before, at::kFloat);
  gradient_norm_(norms, skipped, gradient, 1);
  EXPECT_EQ(norms[0].item<double>(), -1);
  EXPECT_EQ(norms[2].item<double>(), -1);
  return {norms[1].item<double>(), skipped.item<double>()};
}

TEST(GradientNorm, AgreesWithDoublePrecision) {
  torch::manual_seed(1);
  for (const auto type : kTypes)
    for (const int64_t count : kCounts) {
      const Tensor gradient = torch::randn({count}).to(type);
      const double want = gradient.to(at::kDouble).norm().item<double>();
      const NormResult result = norm_of(gradient);
      EXPECT_NEAR(result.norm, want, 1e-6 * want) << c10::toString(type) << " " << count;
      EXPECT_EQ(result.skipped, 0) << c10::toString(type) << " " << count;
    }
}

TEST(GradientNorm, OneInfinityOrNaNSkipsTheStep) {
  torch::manual_seed(2);
  for (const auto type : kTypes)
    for (const int64_t count : kCounts) {
      Tensor gradient = torch::randn({count}).to(type);
      for (const int64_t at : {int64_t{0}, count / 2, count - 1})
        for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
          gradient[at] = bad;
          const NormResult result = norm_of(gradient);
          gradient[at] = 1;
          const std::string what = c10::str(bad, " at ", at, " of ", count, " ", c10::toString(type));
          EXPECT_EQ(result.skipped, 1) << what;
          EXPECT_FALSE(std::isfinite(result.norm)) << what;
        }
    }
}

TEST(GradientNorm, AnInfinityIsFoundInTransposedGradients) {
  Tensor gradient = torch::ones({5, 9}).t();
  gradient[8][4] = -kInfinity;
  EXPECT_EQ(norm_of(gradient).skipped, 1);
  EXPECT_EQ(norm_of(gradient.slice(0, 0, 9, 2)).skipped, 1) << "with gaps between its elements";
  EXPECT_EQ(norm_of(gradient.slice(0, 0, 8, 2)).skipped, 0) << "the infinity is no element of this view";
}

// Squares of 3e30 are above the largest float32 (3.4e38), and squares of 1e-25 below its least (1.4e-45).
TEST(GradientNorm, FiniteGradientsMayHaveSquaresOutsideOfFloat32) {
  for (const double value : {3e30, 1e-25, 65504.0})
    for (const auto type : kTypes)
      for (const int64_t count : kCounts) {
        if (type == at::kHalf && value != 65504.0) continue;
        const Tensor gradient = torch::full({count}, value, type);
        const double want = gradient[0].item<double>() * std::sqrt(static_cast<double>(count));
        const NormResult result = norm_of(gradient);
        EXPECT_EQ(result.skipped, 0) << value << " " << c10::toString(type) << " " << count;
        EXPECT_NEAR(result.norm, want, 1e-6 * want) << value << " " << c10::toString(type) << " " << count;
      }
}

TEST(GradientNorm, ANormBeyondFloat32SkipsTheStep) {
  EXPECT_EQ(norm_of(torch::full({1}, 3e38)).skipped, 0);
  EXPECT_EQ(norm_of(torch::full({33}, 3e38)).skipped, 1);
}

TEST(GradientNorm, AFiniteGradientDoesNotClearTheMark) {
  EXPECT_EQ(norm_of(torch::ones({33}), 1).skipped, 1);
  EXPECT_EQ(norm_of(torch::empty({0}), 1).skipped, 1);
}

TEST(GradientNorm, OfNoElementsIsZero) {
  const NormResult result = norm_of(torch::empty({0}));
  EXPECT_EQ(result.norm, 0);
  EXPECT_EQ(result.skipped, 0);
}

TEST(GradientNormGroup, HasTheBitsOfEachNorm) {
  torch::manual_seed(4);
  for (const auto type : kTypes) {
    std::vector<Tensor> gradients{torch::randn({5, 9}).to(type).t(), torch::randn({7, 6}).to(type).slice(1, 0, 6, 2),
                                  torch::empty({0}, type)};
    for (const int64_t count : kCounts) gradients.push_back(torch::randn({count}).to(type));
    std::vector<int64_t> index;  // in another order, and not from 0
    for (size_t i = 0; i < gradients.size(); ++i) index.push_back(static_cast<int64_t>(gradients.size() - i));
    const Tensor norms = torch::full({std::ssize(gradients) + 2}, -1.0, at::kFloat), skipped = torch::zeros({});
    gradient_norm_group_(norms, skipped, gradients, index);
    EXPECT_EQ(norms[0].item<double>(), -1);
    EXPECT_EQ(norms[-1].item<double>(), -1);
    EXPECT_EQ(skipped.item<double>(), 0);
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_EQ(norms[index[i]].item<float>(), norm_of(gradients[i]).norm) << c10::toString(type) << " " << i;
    expect_workspace("plimsoll::gradient_norm_group_", {norms, skipped, gradients, index});
    gradients.back()[1000] = kInfinity;
    gradient_norm_group_(norms, skipped, gradients, index);
    EXPECT_EQ(skipped.item<double>(), 1);
    EXPECT_EQ(norms[1].item<double>(), kInfinity);
  }
}

TEST(GradientNormGroup, RefusesWhatDoesNotBelongTogether) {
  const Tensor norms = torch::zeros({3}), skipped = torch::zeros({}), gradient = torch::ones({4});
  EXPECT_THROW(gradient_norm_group_(norms, skipped, {gradient, gradient}, {0}), UserError);
  EXPECT_THROW(gradient_norm_group_(norms, skipped, {gradient, gradient}, {0, 3}), UserError);
  EXPECT_THROW(gradient_norm_group_(norms, skipped, {gradient, gradient.to(at::kBFloat16)}, {0, 1}), UserError);
  EXPECT_EQ(norms.abs().sum().item<double>(), 0);
}

// Computes norms as ranks that have slices of gradients do. Each rank sums the blocks of its slices, and all sums are
// stored one rank after the other. `gradients` are padded to ranks * slices[i] elements.
struct SlicedNorms {
  Tensor norms, skipped;
};

SlicedNorms norms_of_slices(const std::vector<Tensor>& gradients, const std::vector<int64_t>& slices, int64_t ranks) {
  int64_t of_rank = 0;
  std::vector<int64_t> index, first, blocks;
  for (size_t i = 0; i < slices.size(); ++i) {
    index.push_back(static_cast<int64_t>(slices.size() - i));  // in another order, and not from 0
    first.push_back(of_rank);
    blocks.push_back(slices[i] / kNormBlock);
    of_rank += blocks.back();
  }
  const Tensor sums = torch::full({ranks * of_rank}, -1.0, at::kDouble);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor padded = torch::zeros({ranks * slices[i]}, gradients[i].options());
      padded.narrow(0, 0, gradients[i].numel()).copy_(gradients[i]);
      gradient_block_sums_(sums, padded.narrow(0, rank * slices[i], slices[i]), rank * of_rank + first[i]);
    }
  EXPECT_GE(sums.min().item<double>(), 0) << "a block has no sum";
  SlicedNorms result{torch::full({static_cast<int64_t>(slices.size()) + 2}, -1.0, at::kFloat), torch::zeros({})};
  norms_of_blocks_(result.norms, result.skipped, sums, ranks, index, first, blocks);
  EXPECT_EQ(result.norms[0].item<double>(), -1);
  EXPECT_EQ(result.norms[-1].item<double>(), -1);
  return result;
}

TEST(SlicedGradientNorm, HasTheBitsOfTheNormOfTheWhole) {
  torch::manual_seed(3);
  for (const auto type : kTypes)
    for (const int64_t ranks : {1, 2, 3, 5}) {
      // The second ends in the middle of a block, the third before the last rank.
      const std::vector<int64_t> slices = {4 * kNormBlock, 5 * kNormBlock, 70 * kNormBlock};
      const std::vector<int64_t> counts = {ranks * slices[0], ranks * slices[1] - 700, slices[2] * (ranks / 2) + 13};
      std::vector<Tensor> gradients;
      for (const int64_t count : counts) gradients.push_back((torch::randn({count}) * 1e3).to(type));
      const SlicedNorms result = norms_of_slices(gradients, slices, ranks);
      EXPECT_EQ(result.skipped.item<double>(), 0);
      for (size_t i = 0; i < gradients.size(); ++i)
        EXPECT_EQ(result.norms[static_cast<int64_t>(slices.size() - i)].item<float>(), norm_of(gradients[i]).norm)
            << c10::toString(type) << ", gradient " << i << " on " << ranks;
    }
}

TEST(SlicedGradientNorm, WhatIsNotFiniteInAnySliceSkipsTheStep) {
  for (const double bad : {kInfinity, std::numeric_limits<double>::quiet_NaN()})
    for (const int64_t at : {int64_t{0}, 3 * kNormBlock - 1, 5 * kNormBlock}) {
      Tensor gradient = torch::ones({6 * kNormBlock - 3});
      EXPECT_EQ(norms_of_slices({gradient}, {2 * kNormBlock}, 3).skipped.item<double>(), 0);
      gradient[at] = bad;
      const Tensor sums = torch::zeros({6}, at::kDouble), norms = torch::zeros({1}), skipped = torch::zeros({});
      for (int64_t rank = 0; rank < 3; ++rank)
        gradient_block_sums_(
            sums,
            gradient.narrow(0, rank * 2 * kNormBlock,
                            std::min<int64_t>(2 * kNormBlock, gradient.numel() - rank * 2 * kNormBlock)),
            2 * rank);
      norms_of_blocks_(norms, skipped, sums, 3, {0}, {0}, {2});
      EXPECT_EQ(skipped.item<double>(), 1) << bad << " at " << at;
      EXPECT_FALSE(std::isfinite(norms[0].item<double>()));
    }
}

TEST(SlicedGradientNorm, RefusesBlocksThatAreNotThere) {
  const Tensor sums = torch::zeros({6}, at::kDouble), norms = torch::zeros({2}), skipped = torch::zeros({});
  EXPECT_THAT(user_error_of([&] { gradient_block_sums_(sums, torch::ones({2 * kNormBlock + 1}), 4); }),
              ::testing::HasSubstr("first is 4; sums has 6 elements, the gradient 3 blocks"));
  EXPECT_THAT(user_error_of([&] {
                gradient_block_sums_(sums, torch::ones({2, kNormBlock}), 0);
              }),
              ::testing::HasSubstr("gradient must be flat"));
  EXPECT_THAT(user_error_of([&] { gradient_block_sums_(norms, torch::ones({8}), 0); }),
              ::testing::HasSubstr("sums must be float64"));
  EXPECT_THAT(user_error_of([&] { norms_of_blocks_(norms, skipped, sums, 4, {0}, {0}, {1}); }),
              ::testing::HasSubstr("sums has 6 elements for 4 ranks"));
  EXPECT_THAT(user_error_of([&] { norms_of_blocks_(norms, skipped, sums, 3, {0}, {1}, {2}); }),
              ::testing::HasSubstr("gradient 0 is not in norms or sums"));
  EXPECT_THAT(user_error_of([&] { norms_of_blocks_(norms, skipped, sums, 3, {2}, {0}, {1}); }),
              ::testing::HasSubstr("gradient 0 is not in norms or sums"));
  EXPECT_THAT(user_error_of([&] {
                norms_of_blocks_(norms, skipped, sums, 3, {0, 1}, {0}, {1});
              }),
              ::testing::HasSubstr("differ in size"));
}

}  // namespace
}  // namespace plimsoll::ops
