#include "ops/optimizer/optimizer_launch.h"

#include <cmath>
#include <limits>
#include <vector>

#include "cuda_on_cpu/operator_testing.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

struct Result {
  float norm = -1, skipped = 0;
};

Result run(const Tensor& gradient) {
  Result result;
  const Tensor partials = unwritten({std::max<int64_t>(1, div_up(gradient.numel(), kCudaNormBlock))}, at::kDouble);
  cuda::launch_gradient_norm(gradient.const_data_ptr(), dtype_of(gradient), gradient.numel(),
                             partials.data_ptr<double>(), &result.norm, &result.skipped, nullptr);
  return result;
}

TEST(CudaGradientNorm, AgreesWithFloat64) {
  at::manual_seed(4);
  for (const auto type : kTypes)
    for (const int64_t count : {1, 7, 257, 4096, 32768, 100003})
      for (const int64_t shift : {0, 1}) {
        const Tensor gradient = random_rows(1, count, type, 0, shift)[0];
        const double want = gradient.to(at::kDouble).norm().item<double>();
        for (const auto order : kOrders) {
          const InOrder in(order);
          const Result got = run(gradient);
          EXPECT_NEAR(got.norm, want, 3e-7 * want) << c10::toString(type) << " " << count;
          EXPECT_EQ(got.norm, run(gradient).norm);
          EXPECT_EQ(got.skipped, 0);
        }
      }
  EXPECT_EQ(run(at::empty({0})).norm, 0);
}

TEST(CudaGradientNorm, FiniteGradientsMayHaveSquaresOutsideOfFloat32) {
  for (const double value : {3e30, 1e-25})
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const int64_t count : {1, 7, 257, 4096}) {
        const Tensor gradient = at::full({count}, value, type);
        const double want = gradient[0].item<double>() * std::sqrt(static_cast<double>(count));
        const Result got = run(gradient);
        EXPECT_NEAR(got.norm, want, 3e-7 * want) << c10::toString(type) << " " << count;
        EXPECT_EQ(got.skipped, 0);
      }
}

TEST(CudaGradientNorm, MarksWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const int64_t at : {0, 40000, 49999}) {
      Tensor gradient = at::ones({50000}, at::kBFloat16);
      gradient[at] = bad;
      EXPECT_EQ(run(gradient).skipped, 1);
    }
}

// More gradients than a launch takes, among them empty ones, one whose address allows no packs, and one with gaps.
TEST(CudaGradientNormGroup, HasTheBitsOfEachNorm) {
  at::manual_seed(6);
  for (const auto type : kTypes) {
    std::vector<Tensor> gradients;
    for (int64_t i = 0; i < 2 * cuda::kNormsOfLaunch + 3; ++i) {
      const int64_t count = i % 7 == 0 ? 0 : i % 11 == 0 ? 3 * kCudaNormBlock + i : 5 * i;
      gradients.push_back(random_rows(1, std::max<int64_t>(count, 1), type, 0, i % 2)[0].narrow(0, 0, count));
    }
    gradients.push_back(random_rows(9, 40, type).slice(1, 0, 40, 2));
    std::vector<int64_t> index;
    for (size_t i = 0; i < gradients.size(); ++i) index.push_back(static_cast<int64_t>(gradients.size() - i));
    for (const auto order : kOrders) {
      const InOrder in(order);
      const Tensor norms = at::full({std::ssize(gradients) + 2}, -1.0, at::kFloat), skipped = at::zeros({});
      call_on_cuda("plimsoll::gradient_norm_group_", {norms, skipped, gradients, index});
      EXPECT_EQ(norms[0].item<float>(), -1);
      EXPECT_EQ(norms[-1].item<float>(), -1);
      EXPECT_EQ(skipped.item<float>(), 0);
      for (size_t i = 0; i < gradients.size(); ++i)
        EXPECT_EQ(norms[index[i]].item<float>(), run(gradients[i].contiguous()).norm)
            << c10::toString(type) << ", gradient " << i;
    }
    expect_cuda_workspace("plimsoll::gradient_norm_group_", {at::zeros({200}), at::zeros({}), gradients, index});
  }
}

TEST(CudaGradientNormGroup, MarksWhatIsNotFinite) {
  for (const int64_t at : {0, 70}) {
    std::vector<Tensor> gradients(71, at::ones({5}));
    gradients[static_cast<size_t>(at)] = at::full({5}, std::numeric_limits<double>::infinity());
    const Tensor norms = at::zeros({71}), skipped = at::zeros({});
    std::vector<int64_t> index(71);
    for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>(i);
    call_on_cuda("plimsoll::gradient_norm_group_", {norms, skipped, gradients, index});
    EXPECT_EQ(skipped.item<float>(), 1);
  }
}

/// Norms of gradients from the block sums of slices, as ranks make them, taken by the operators. Gradient i is padded
/// with zeros to ranks * slices[i] elements.
Tensor norms_of_slices(const std::vector<Tensor>& gradients, const std::vector<int64_t>& slices, int64_t ranks) {
  const auto gradient_count = static_cast<int64_t>(gradients.size());
  std::vector<int64_t> index, first, blocks;
  int64_t of_rank = 1;  // the blocks of the first gradient do not begin at 0
  for (const int64_t slice : slices) {
    index.push_back(gradient_count - std::ssize(index));
    first.push_back(of_rank);
    blocks.push_back(slice / kNormBlock);
    of_rank += blocks.back();
  }
  const Tensor sums = unwritten({ranks * of_rank}, at::kDouble);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor padded = at::zeros({ranks * slices[i]}, gradients[i].options());
      padded.narrow(0, 0, gradients[i].numel()).copy_(gradients[i]);
      call_on_cuda("plimsoll::gradient_block_sums_",
                   {sums, padded.narrow(0, rank * slices[i], slices[i]), rank * of_rank + first[i]});
    }
  const Tensor norms = at::full({gradient_count + 2}, -1.0, at::kFloat), skipped = at::zeros({});
  call_on_cuda("plimsoll::norms_of_blocks_", {norms, skipped, sums, ranks, index, first, blocks});
  EXPECT_EQ(norms[0].item<float>(), -1);
  EXPECT_EQ(norms[-1].item<float>(), -1);
  EXPECT_EQ(skipped.item<float>(), 0);
  return norms;
}

TEST(CudaSlicedGradientNorm, HasTheBitsOfTheNormOfTheWhole) {
  at::manual_seed(5);
  for (const auto type : kTypes)
    for (const int64_t ranks : {1, 2, 3}) {
      // The second ends in the middle of a pack, the third before the last rank.
      const std::vector<int64_t> slices = {2 * kNormBlock, 3 * kNormBlock, 140 * kNormBlock};
      const std::vector<int64_t> counts = {ranks * slices[0], ranks * slices[1] - 701, slices[2] * (ranks / 2) + 13};
      std::vector<Tensor> gradients;
      for (const int64_t count : counts) gradients.push_back((at::randn({count}) * 1e2).to(type));
      const Tensor norms = norms_of_slices(gradients, slices, ranks);
      for (size_t i = 0; i < gradients.size(); ++i)
        EXPECT_EQ(norms[static_cast<int64_t>(gradients.size() - i)].item<float>(), run(gradients[i]).norm)
            << c10::toString(type) << ", gradient " << i << " on " << ranks;
    }
}

// The gradient of an embedding has so many sums that each thread adds several in each of several rounds.
TEST(CudaSlicedGradientNorm, OfThousandsOfBlocksHasTheBitsOfTheWhole) {
  at::manual_seed(8);
  constexpr int64_t kBlocks = 9001;
  const Tensor sums = at::rand({kBlocks}, at::kDouble) * 1e3;
  std::vector<float> norms;
  for (const int64_t ranks : {1, 2, 3}) {
    const int64_t of_rank = div_up(kBlocks, ranks);
    const Tensor padded = at::zeros({ranks * of_rank}, at::kDouble);
    padded.narrow(0, 0, kBlocks).copy_(sums);
    const Tensor norm = at::zeros({1}), skipped = at::zeros({});
    call_on_cuda("plimsoll::norms_of_blocks_", {norm, skipped, padded, ranks, std::vector<int64_t>{0},
                                                std::vector<int64_t>{0}, std::vector<int64_t>{of_rank}});
    norms.push_back(norm.item<float>());
  }
  EXPECT_NEAR(norms[0], std::sqrt(sums.sum().item<double>()), 1e-6 * norms[0]);
  EXPECT_EQ(norms[1], norms[0]);
  EXPECT_EQ(norms[2], norms[0]);
}

TEST(CudaSlicedGradientNorm, TakesMoreGradientsThanOneLaunchDoes) {
  const int64_t count = cuda::kNormsOfLaunch + 2;
  std::vector<Tensor> gradients;
  for (int64_t i = 0; i < count; ++i) gradients.push_back(at::full({10}, static_cast<double>(i + 1)));
  const Tensor norms = norms_of_slices(gradients, std::vector<int64_t>(count, kNormBlock), 2);
  for (int64_t i = 0; i < count; ++i) EXPECT_EQ(norms[count - i].item<float>(), run(gradients[i]).norm) << i;
}

TEST(CudaSlicedGradientNorm, WhatIsNotFiniteInAnySliceSkipsTheStep) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const int64_t at : {0, 3, 5}) {
      const Tensor sums = at::ones({6}, at::kDouble), norms = at::zeros({2}), skipped = at::zeros({});
      sums[at] = bad;
      call_on_cuda("plimsoll::norms_of_blocks_", {norms, skipped, sums, 3, std::vector<int64_t>{1},
                                                  std::vector<int64_t>{0}, std::vector<int64_t>{2}});
      EXPECT_EQ(skipped.item<float>(), 1) << bad << " at " << at;
    }
}

}  // namespace
}  // namespace plimsoll::ops
