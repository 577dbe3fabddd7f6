// Tests attention of packed queries, keys and values beside its parts.
#include "ops/layers/packed_attention.h"

#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace testing;

const RopeFrequencies kStretched{.theta = 5e5, .factor = 8, .low = 1, .high = 4, .original_length = 64};

/// The same by rope() and attention(), from copies.
Tensor by_parts(const Tensor& qkv, const PackedHeads& heads, const AttentionOptions& options,
                const std::optional<RopeFrequencies>& frequencies) {
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  const auto parts = qkv.view({batch, tokens, heads.total(), heads.width})
                         .split_with_sizes({heads.queries, heads.keys, heads.keys}, 2);
  const auto rotated = [&](const Tensor& x) { return frequencies ? rope(x, 0, *frequencies) : x; };
  return attention(rotated(parts[0]).transpose(1, 2), rotated(parts[1]).transpose(1, 2), parts[2].transpose(1, 2),
                   options)
      .transpose(1, 2)
      .reshape({batch, tokens, heads.queries * heads.width});
}

struct Trained {
  Tensor result, gradient;
};
template <typename Attend>
Trained trained(const Tensor& qkv, const Tensor& grad, const Attend& attend) {
  const Tensor leaf = qkv.clone().requires_grad_(true);
  const Tensor result = attend(leaf * 1);  // not the leaf itself: it is overwritten
  result.backward(grad);
  return {result.detach(), leaf.grad()};
}

TEST(PackedAttention, HasTheBitsOfItsParts) {
  torch::manual_seed(1);
  const Tensor mask = torch::rand({1, 1, 33, 33}) < 0.7;
  const std::vector<AttentionOptions> settings = {{},
                                                  {.window = 5},
                                                  {.causal = false},
                                                  {.scale = 0.3, .softcap = 4},
                                                  {.causal = false, .mask = mask},
                                                  {.dropout = 0.2, .seed = torch::full({1}, 7, at::kLong)}};
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const PackedHeads& heads : {PackedHeads{6, 2, 16}, {3, 3, 8}, {4, 1, 10}})
      for (const AttentionOptions& options : settings)
        for (const auto& frequencies : {std::optional<RopeFrequencies>(), {RopeFrequencies{}}, {kStretched}}) {
          const Tensor qkv = torch::randn({2, 33, heads.total() * heads.width}).to(type),
                       grad = torch::randn({2, 33, heads.queries * heads.width}).to(type);
          const Trained packed =
              trained(qkv, grad, [&](const Tensor& x) { return packed_attention(x, heads, options, frequencies); });
          const Trained parts =
              trained(qkv, grad, [&](const Tensor& x) { return by_parts(x, heads, options, frequencies); });
          EXPECT_TRUE(at::equal(packed.result, parts.result));
          EXPECT_TRUE(at::equal(packed.gradient, parts.gradient));
        }
}

TEST(PackedAttention, RotatesInPlace) {
  const PackedHeads heads{2, 1, 8};
  const Tensor qkv = torch::randn({1, 6, 32}), before = qkv.clone();
  packed_attention(qkv, heads, {}, RopeFrequencies{});
  const Tensor rotated = rope(before.narrow(2, 0, 24).view({1, 6, 3, 8}), 0).view({1, 6, 24});
  EXPECT_TRUE(at::equal(qkv.narrow(2, 0, 24), rotated));
  EXPECT_TRUE(at::equal(qkv.narrow(2, 24, 8), before.narrow(2, 24, 8)));
}

TEST(PackedAttention, IsInTheLowerPrecisionUnderAutocast) {
  torch::manual_seed(2);
  const PackedHeads heads{2, 1, 8};
  const Tensor qkv = torch::randn({2, 9, 32}), grad = torch::randn({2, 9, 16}).to(at::kBFloat16);
  const auto in_autocast = [&](const auto& attend) {
    return trained(qkv, grad, [&](const Tensor& x) {
      const Autocast autocast(at::kBFloat16);
      return attend(x);
    });
  };
  const Trained packed =
      in_autocast([&](const Tensor& x) { return packed_attention(x, heads, {}, RopeFrequencies{}); });
  const Trained parts =
      in_autocast([&](const Tensor& x) { return by_parts(x.to(at::kBFloat16), heads, {}, RopeFrequencies{}); });
  EXPECT_EQ(packed.result.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(packed.result, parts.result));
  EXPECT_TRUE(at::equal(packed.gradient, parts.gradient));
}

TEST(PackedAttention, AChangedResultIsSeen) {
  const Tensor leaf = torch::randn({1, 3, 32}).requires_grad_(true);
  const Tensor result = packed_attention(leaf * 1, {2, 1, 8}, {});
  result.mul_(2);
  EXPECT_THROW(result.sum().backward(), c10::Error);
}

TEST(PackedAttention, AChangedSeedIsSeen) {
  const Tensor leaf = torch::randn({1, 3, 32}).requires_grad_(true), seed = torch::full({1}, 7, at::kLong);
  const Tensor result = packed_attention(leaf * 1, {2, 1, 8}, {.dropout = 0.2, .seed = seed});
  seed.add_(1);
  EXPECT_THROW(result.sum().backward(), c10::Error);
}

TEST(PackedAttention, RefusesOtherShapesAndASecondDerivative) {
  EXPECT_THAT(
      [] {
        packed_attention(torch::randn({2, 3, 30}), {2, 1, 8}, {});
      },
      ThrowsMessage<UserError>(HasSubstr("(2 + 2 x 1) x 8")));
  EXPECT_THROW(packed_attention(torch::randn({6, 32}), {2, 1, 8}, {}), UserError);
  const Tensor leaf = torch::randn({1, 3, 32}).requires_grad_(true);
  const Tensor result = packed_attention(leaf * 1, {2, 1, 8}, {});
  EXPECT_THAT([&] { torch::autograd::grad({result.sum()}, {leaf}, {}, true, /*create_graph=*/true); },
              ThrowsMessage<UserError>(HasSubstr("second derivative")));
}

}  // namespace
}  // namespace plimsoll::ops
