#include "ops/loss/linear_cross_entropy.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>

#include "ops/kernels_cpu.h"
#include "ops/loss/linear_cross_entropy_chunks.h"
#include "ops/ops_testing.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor loss_reference(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                      double softcap = 0) {
  Tensor logits = at::linear(x, weight);
  if (softcap > 0) logits = softcap * at::tanh(logits / softcap);
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, ignore_index);
}

/// Some targets ignored, the first and last row of the weight among the others.
Tensor random_targets(int64_t tokens, int64_t vocabulary, int64_t ignore_index) {
  Tensor targets = torch::randint(vocabulary, {tokens}, at::kLong);
  targets[0] = vocabulary - 1;
  if (tokens > 3) targets.slice(0, 2, tokens, 3).fill_(ignore_index);
  if (tokens > 1) targets[1] = 0;
  return targets;
}

struct LossCase {
  int64_t tokens, vocabulary, width;
};

TEST(LinearCrossEntropy, AgreesWithItsParts) {
  torch::manual_seed(1);
  for (const LossCase& c : {LossCase{1, 1, 3}, {5, 7, 4}, {64, 1000, 16}, {33, 5003, 8}}) {
    for (const auto type : kTypes) {
      const Tensor x = torch::randn({c.tokens, c.width}, at::kDouble).to(type).requires_grad_(true);
      const Tensor weight = torch::randn({c.vocabulary, c.width}, at::kDouble).to(type).requires_grad_(true);
      const Tensor targets = random_targets(c.tokens, c.vocabulary, -1);
      const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
      const Tensor exact_weight = weight.detach().to(at::kDouble).requires_grad_(true);
      const Tensor loss = linear_cross_entropy(x, weight, targets, -1);
      const Tensor want = loss_reference(exact, exact_weight, targets, -1);
      EXPECT_EQ(loss.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
      EXPECT_EQ(loss.dim(), 0);
      (loss * 3).backward();
      (want * 3).backward();
      const std::string what = c10::str(c.tokens, " x ", c.vocabulary, " ", c10::toString(type));
      expect_close(loss, want, tolerance(type), what + " loss");
      if (c.vocabulary == 1) continue;  // no gradient but rounding
      expect_close(x.grad(), exact.grad(), tolerance(type), what + " grad_x");
      expect_close(weight.grad(), exact_weight.grad(), tolerance(type), what + " grad_weight");
      EXPECT_EQ(x.grad().scalar_type(), type);
      EXPECT_EQ(weight.grad().scalar_type(), type);
    }
  }
}

TEST(LinearCrossEntropy, CapsItsLogits) {
  torch::manual_seed(7);
  for (const LossCase& c : {LossCase{5, 7, 4}, {64, 1000, 16}, {33, 503, 8}}) {
    for (const auto type : kTypes) {
      for (const double cap : {3.0, 30.0}) {
        const Tensor x = torch::randn({c.tokens, c.width}, at::kDouble).to(type).requires_grad_(true);
        const Tensor weight = torch::randn({c.vocabulary, c.width}, at::kDouble).to(type).requires_grad_(true);
        const Tensor targets = random_targets(c.tokens, c.vocabulary, -1);
        const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
        const Tensor exact_weight = weight.detach().to(at::kDouble).requires_grad_(true);
        const Tensor loss = linear_cross_entropy(x, weight, targets, -1, cap);
        const Tensor want = loss_reference(exact, exact_weight, targets, -1, cap);
        loss.backward();
        want.backward();
        const std::string what = c10::str(c.tokens, " x ", c.vocabulary, " ", c10::toString(type), " cap ", cap);
        expect_close(loss, want, tolerance(type), what + " loss");
        expect_close(x.grad(), exact.grad(), tolerance(type), what + " grad_x");
        expect_close(weight.grad(), exact_weight.grad(), tolerance(type), what + " grad_weight");
        const at::NoGradGuard no_grad;
        expect_close(linear_cross_entropy(x, weight, targets, -1, cap), want, tolerance(type), what + " loss only");
      }
    }
  }
  EXPECT_THROW(linear_cross_entropy(torch::randn({2, 3}), torch::randn({4, 3}), torch::zeros({2}, at::kLong), -1, -1.0),
               UserError);
}

// In double precision, against differences of the loss.
TEST(LinearCrossEntropy, ACappedGradientIsTheDifferenceOfLosses) {
  torch::manual_seed(8);
  const Tensor x = (2 * torch::randn({4, 3}, at::kDouble)).requires_grad_(true);
  const Tensor weight = (2 * torch::randn({6, 3}, at::kDouble)).requires_grad_(true);
  const Tensor targets = torch::tensor({0, 5, -1, 2}, at::kLong);
  linear_cross_entropy(x, weight, targets, -1, 2.0).backward();
  const at::NoGradGuard no_grad;
  for (const Tensor& of : {x, weight})
    for (int64_t i = 0; i < of.numel(); ++i) {
      const auto loss_at = [&](double change) {
        Tensor moved = of.detach().clone();
        moved.view({-1})[i] += change;
        return linear_cross_entropy(of.is_same(x) ? moved : x, of.is_same(x) ? weight : moved, targets, -1, 2.0)
            .item<double>();
      };
      EXPECT_NEAR(of.grad().view({-1})[i].item<double>(), (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5, 1e-8) << i;
    }
}

// Three chunks at the same time, compared with the same chunks one by one.
TEST(LinearCrossEntropy, AddsUpItsChunks) {
  torch::manual_seed(6);
  const int64_t tokens = 180, vocabulary = 400003;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const LossChunks chunks = loss_chunks(tokens, vocabulary, c10::elementSize(type), kLossChunkBytes);
    ASSERT_EQ(chunks.count, 3);
    const Tensor x = torch::randn({tokens, 2}).to(type), weight = torch::randn({vocabulary, 2}).to(type);
    const Tensor targets = random_targets(tokens, vocabulary, -1);
    const auto all = call("plimsoll::linear_cross_entropy", {x, weight, targets, int64_t{-1}, true, true, 0.0});
    double loss = 0, count = 0;
    Tensor grad_weight = torch::zeros({vocabulary, 2}, at::kDouble);
    std::vector<Tensor> grad_x;
    for (int64_t begin = 0; begin < tokens; begin += chunks.rows) {
      const int64_t size = std::min(chunks.rows, tokens - begin);
      const auto part =
          call("plimsoll::linear_cross_entropy",
               {x.narrow(0, begin, size), weight, targets.narrow(0, begin, size), int64_t{-1}, true, true, 0.0});
      const double counted = part[1].toTensor().item<double>();
      loss += part[0].toTensor().item<double>() * counted;
      count += counted;
      grad_x.push_back(part[2].toTensor());
      grad_weight += part[3].toTensor();
    }
    EXPECT_EQ(all[1].toTensor().item<double>(), count);
    EXPECT_NEAR(all[0].toTensor().item<double>() * count / loss, 1.0, 1e-6);
    EXPECT_TRUE(at::equal(all[2].toTensor(), at::cat(grad_x)));
    if (type == at::kFloat) {
      expect_close(all[3].toTensor(), grad_weight, 2e-6, "grad_weight");
    } else {
      // Every element is rounded once, at the end.
      const Tensor error = (all[3].toTensor().to(at::kDouble) - grad_weight).abs() / grad_weight.abs();
      EXPECT_LE(at::nan_to_num(error, 0).max().item<double>(), 1.01 / 256);
    }
  }
}

TEST(SplitAdd, LosesNothingOfManyAdditions) {
  constexpr int64_t kParts = 2000, kWidth = 19;
  const Tensor part = (1 + torch::rand({1, kWidth})).to(at::kBFloat16);
  const Tensor high = torch::zeros({1, kWidth}, at::kBFloat16), low = torch::zeros({1, kWidth}, at::kBFloat16);
  const auto row = [&](const Tensor& t) { return Rows{t.data_ptr(), DType::bfloat16, kWidth}; };
  for (int64_t i = 0; i < kParts; ++i)
    split_add_rows({.part = {part.data_ptr(), DType::bfloat16, kWidth},
                    .high = row(high),
                    .low = row(low),
                    .read_low = true,
                    .write_low = true,
                    .width = kWidth},
                   0, 1);
  expect_close(high, part.to(at::kDouble) * kParts, 4e-3, "sum");
}

TEST(LinearCrossEntropy, GivesTheGradientsThatAreWanted) {
  torch::manual_seed(2);
  const Tensor targets = random_targets(20, 50, -100);
  const Tensor x = torch::randn({20, 8}), weight = torch::randn({50, 8});
  const Tensor both_x = x.clone().requires_grad_(true), both_weight = weight.clone().requires_grad_(true);
  linear_cross_entropy(both_x, both_weight, targets).backward();
  const Tensor only_x = x.clone().requires_grad_(true), only_weight = weight.clone().requires_grad_(true);
  linear_cross_entropy(only_x, weight, targets).backward();
  linear_cross_entropy(x, only_weight, targets).backward();
  EXPECT_TRUE(at::equal(only_x.grad(), both_x.grad()));
  EXPECT_TRUE(at::equal(only_weight.grad(), both_weight.grad()));
  EXPECT_FALSE(weight.grad().defined());

  const Tensor loss = linear_cross_entropy(x, weight, targets);
  EXPECT_FALSE(loss.requires_grad());
  expect_close(loss, loss_reference(x, weight, targets, -100), 1e-5, "loss only");
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(linear_cross_entropy(both_x, both_weight, targets), loss));
}

TEST(LinearCrossEntropy, TakesTokensInAnyShapeAndStrides) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({4, 6, 16}), weight = torch::randn({16, 30}).t();
  const Tensor targets = torch::randint(30, {6, 4}, at::kLong).t();
  const Tensor want = loss_reference(x.reshape({24, 16}), weight, targets.reshape({24}), -100);
  expect_close(linear_cross_entropy(x, weight, targets), want, 1e-5, "shape");
  const Tensor narrow = torch::randn({10, 40}).narrow(1, 4, 16),
               every_other = torch::randint(30, {20}, at::kLong).slice(0, 0, 20, 2);
  expect_close(linear_cross_entropy(narrow, weight, every_other), loss_reference(narrow, weight, every_other, -100),
               1e-5, "strides");
}

TEST(LinearCrossEntropy, AnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(4);
  for (const LossCase& c : {LossCase{5, 7, 4}, {64, 1000, 16}}) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      SCOPED_TRACE(c10::str(c.tokens, " x ", c.vocabulary, " ", c10::toString(type)));
      const Tensor x = torch::randn({c.tokens, c.width}).to(type),
                   weight = torch::randn({c.vocabulary, c.width}).to(type);
      const Tensor targets = random_targets(c.tokens, c.vocabulary, -1);
      for (const auto& [wants_x, wants_weight] : {std::pair{true, true}, {true, false}, {false, true}}) {
        const std::vector<c10::IValue> arguments = {x, weight, targets, int64_t{-1}, wants_x, wants_weight, 0.0};
        expect_meta_agrees("plimsoll::linear_cross_entropy", arguments);
        expect_workspace("plimsoll::linear_cross_entropy", arguments);
      }
      expect_meta_agrees("plimsoll::linear_cross_entropy_loss", {x, weight, targets, int64_t{-1}, 0.0});
      expect_workspace("plimsoll::linear_cross_entropy_loss", {x, weight, targets, int64_t{-1}, 0.0});
    }
  }
  const Tensor apart = torch::randn({8, 20}).t(), targets = torch::zeros({20}, at::kLong);
  expect_workspace("plimsoll::linear_cross_entropy",
                   {apart, torch::randn({30, 8}), targets, int64_t{-1}, true, true, 0.0});
}

TEST(LinearCrossEntropy, StatesTheWorkspaceOfManyChunks) {
  for (const auto& [c, type, chunks] : {std::tuple{LossCase{100, 400003, 1}, at::kFloat, 2},
                                        {LossCase{100, 400003, 1}, at::kBFloat16, 2},
                                        {LossCase{130, 600001, 1}, at::kBFloat16, 3}}) {
    ASSERT_EQ(loss_chunks(c.tokens, c.vocabulary, c10::elementSize(type), kLossChunkBytes).count, chunks);
    // Most targets are ignored: the products are computed all the same, the exponentials are not.
    Tensor targets = torch::full({c.tokens}, -1, at::kLong);
    targets[0] = 3;
    const Tensor x = torch::ones({c.tokens, c.width}).to(type), weight = torch::ones({c.vocabulary, c.width}).to(type);
    expect_workspace("plimsoll::linear_cross_entropy", {x, weight, targets, int64_t{-1}, true, true, 0.0});
  }
}

TEST(LinearCrossEntropy, NothingCountsWhenAllIsIgnored) {
  const Tensor x = torch::randn({6, 4}).requires_grad_(true), weight = torch::randn({9, 4}).requires_grad_(true);
  const Tensor loss = linear_cross_entropy(x, weight, torch::full({6}, -100, at::kLong));
  loss.backward();
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_TRUE(at::equal(x.grad(), torch::zeros({6, 4})));
  EXPECT_TRUE(at::equal(weight.grad(), torch::zeros({9, 4})));
}

TEST(LinearCrossEntropy, LargeLogitsStayFiniteAndNanShows) {
  const Tensor x = torch::tensor({{300.f}, {-300.f}}).requires_grad_(true);
  const Tensor weight = torch::tensor({{1.f}, {-1.f}, {0.f}}).requires_grad_(true);
  const Tensor loss = linear_cross_entropy(x, weight, torch::tensor({1, 1}));
  EXPECT_FLOAT_EQ(loss.item<float>(), 300.0f);
  loss.backward();
  EXPECT_TRUE(at::isfinite(x.grad()).all().item<bool>());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(std::isnan(linear_cross_entropy(torch::tensor({{NAN}}), weight, torch::tensor({1})).item<float>()));
}

TEST(LinearCrossEntropy, AutocastLowersItsOperands) {
  torch::manual_seed(5);
  const Tensor x = torch::randn({12, 8}).requires_grad_(true), weight = torch::randn({40, 8}).requires_grad_(true);
  const Tensor targets = random_targets(12, 40, -100);
  Tensor loss, low_loss;
  {
    const Autocast autocast(at::kBFloat16);
    loss = linear_cross_entropy(x, weight, targets);
    const at::NoGradGuard no_grad;
    low_loss = linear_cross_entropy(x.to(at::kBFloat16), weight.to(at::kBFloat16), targets);
  }
  EXPECT_TRUE(at::equal(loss, low_loss));
  loss.backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
}

TEST(LinearCrossEntropy, NamesATargetOutsideTheVocabulary) {
  const Tensor x = torch::randn({3, 4}), weight = torch::randn({10, 4});
  for (const int64_t wrong : {int64_t{10}, int64_t{-1}}) {
    EXPECT_THAT(
        refusal_of([&] {
          linear_cross_entropy(x, weight, torch::tensor({int64_t{1}, wrong, int64_t{2}}));
        }),
        ::testing::AllOf(::testing::HasSubstr("plimsoll::linear_cross_entropy"), ::testing::HasSubstr("outside 0..9"),
                         ::testing::HasSubstr("target " + std::to_string(wrong))));
  }
  EXPECT_THROW(linear_cross_entropy(x, torch::randn({10, 5}), torch::zeros({3}, at::kLong)), UserError);
  EXPECT_THROW(linear_cross_entropy(x, weight, torch::zeros({3}, at::kInt)), UserError);
  EXPECT_THROW(linear_cross_entropy(x, weight, torch::zeros({4}, at::kLong)), UserError);
}

// A vocabulary may be masked by logits of minus infinity; without a softcap its share of the cap is 0, not -inf x 0.
TEST(CrossEntropyRows, AreFiniteWithLogitsOfMinusInfinity) {
  torch::manual_seed(9);
  for (const double cap : {0.0, 5.0}) {
    Tensor logits = torch::randn({2, 37});
    logits.narrow(1, 3, 20).fill_(-std::numeric_limits<float>::infinity());
    const Tensor exact = logits.to(at::kDouble).requires_grad_(true), losses = torch::empty({2});
    const Tensor targets = torch::tensor({int64_t{1}, int64_t{30}});
    cross_entropy_rows({.logits = {logits.mutable_data_ptr(), DType::float32, logits.stride(0)},
                        .targets = targets.const_data_ptr<int64_t>(),
                        .target_stride = 1,
                        .ignore_index = -1,
                        .losses = losses.mutable_data_ptr(),
                        .width = 37,
                        .gradient = true,
                        .softcap = cap},
                       0, 2);
    const Tensor capped = cap > 0 ? cap * at::tanh(exact / cap) : exact;
    const Tensor want = at::cross_entropy_loss(capped, targets, {}, at::Reduction::Sum);
    want.backward();
    EXPECT_TRUE(at::isfinite(logits).all().item<bool>()) << "cap " << cap;
    expect_close(losses.sum(), want, tolerance(at::kFloat), "loss");
    if (cap == 0)
      expect_close(logits, at::softmax(exact.detach(), 1) - at::one_hot(targets, 37), tolerance(at::kFloat),
                   "gradient");
  }
}

TEST(LossChunks, AreEvenAndNotTooSmall) {
  EXPECT_EQ(loss_chunks(1024, 50304, 4, kLossChunkBytes).rows, 256);
  EXPECT_EQ(loss_chunks(1024, 50304, 2, kLossChunkBytes).rows, 512);
  EXPECT_EQ(loss_chunks(10, 50304, 4, kLossChunkBytes).rows, 10);
  EXPECT_GE(loss_chunks(5000, 1 << 24, 4, kLossChunkBytes).rows, 64);
  // On a GPU 1024 tokens of 16 bits, within 64 to 256 MiB.
  EXPECT_EQ(loss_chunks(8192, 50304, 2, cuda_loss_chunk_bytes(50304)).rows, 1024);
  EXPECT_EQ(loss_chunks(8192, 50304, 4, cuda_loss_chunk_bytes(50304)).rows, 512);
  EXPECT_EQ(loss_chunks(32768, 4096, 2, cuda_loss_chunk_bytes(4096)).rows, 8192);
  EXPECT_EQ(loss_chunks(8192, 151936, 2, cuda_loss_chunk_bytes(151936)).rows, 832);
  for (int64_t tokens = 1; tokens < 3000; tokens += 7) {
    const auto chunks = loss_chunks(tokens, 100000, 4, kLossChunkBytes);
    EXPECT_GE(chunks.rows * chunks.count, tokens);
    EXPECT_LT(chunks.rows * (chunks.count - 1), tokens);
  }
}

}  // namespace
}  // namespace plimsoll::ops
