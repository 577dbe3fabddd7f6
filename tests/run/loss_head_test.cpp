// Tests linear layers with a cross entropy that are recorded as plimsoll::linear_cross_entropy: the values, the planned
// bytes, and the calls that are recorded as they are.
#include "record/loss_head.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/functional.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "plimsoll/error.h"
#include "run/equality.h"
#include "run/loss_model.h"

namespace plimsoll::loss_head_test {
namespace {

namespace F = torch::nn::functional;
using testing::Batch;
using testing::EagerStep;
using testing::losses::batch_of;
using testing::losses::kSequences;
using testing::losses::kTokens;
using testing::losses::kWords;
using testing::losses::Loss;
using testing::losses::options_of;
using testing::losses::rows;
using testing::losses::step_of;
using testing::losses::Tensor;

int64_t heads_in(const Trace& trace) {
  return std::ranges::count(trace.ops, "plimsoll::linear_cross_entropy", &Op::name);
}

const std::vector<std::pair<std::string, Loss>>& replaced() {
  static const std::vector<std::pair<std::string, Loss>> losses = {
      {"rows",
       [](auto& m, auto& x, auto& y) { return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1)); }},
      {"classes before tokens",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(torch::linear(x, m.head).transpose(1, 2), y);
       }},
      {"classes before tokens, cast",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(torch::linear(x, m.head).transpose(1, 2).to(torch::kFloat), y);
       }},
      {"shifted",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         return torch::cross_entropy_loss(rows(logits.slice(1, 0, kTokens - 1).contiguous()),
                                          y.slice(1, 1).reshape(-1));
       }},
      {"the last tokens, of a copy in float32",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head).to(torch::kFloat, false, /*copy=*/true);
         return torch::cross_entropy_loss(rows(logits.slice(1, 5)), y.slice(1, 5).reshape(-1));
       }},
      {"sum over a number of items",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1), {}, at::Reduction::Sum) / 61;
       }},
      {"another ignored label",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1).clamp_min(7), {},
                                          at::Reduction::Mean, 7);
       }},
      {"softmax, then likelihood",
       [](auto& m, auto& x, auto& y) {
         return torch::nll_loss_nd(rows(torch::linear(x, m.head)).log_softmax(-1), y.view(-1));
       }},
      {"softmax over tokens of a sequence, then likelihood",
       [](auto& m, auto& x, auto& y) {
         return torch::nll_loss_nd(torch::linear(x, m.head).log_softmax(-1).transpose(1, 2), y);
       }},
      {"tied to the embedding",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.words)), y.view(-1));
       }},
      {"two heads",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1)) +
                0.3 * torch::cross_entropy_loss(rows(torch::linear(x.tanh(), m.words)), y.view(-1));
       }},
      {"without a gradient of the head",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head.detach())), y.view(-1)) + 0 * m.head.sum();
       }},
  };
  return losses;
}

class ReplacedLoss : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, ReplacedLoss, ::testing::Range<size_t>(0, replaced().size()));

// Eager sums losses in float32: at a loss of 12 that alone is 1e-6 and more, by the processor's instructions.
void expect_loss(double got, double want) {
  EXPECT_NEAR(got, want, 2e-6 * std::max(1.0, std::abs(want)));
}

// Losses and parameters of three steps, and of an evaluation, beside the same steps by eager.
TEST_P(ReplacedLoss, HasTheValuesOfEagerAndNoLogits) {
  const auto& [name, loss] = replaced()[GetParam()];
  SCOPED_TRACE(name);
  TrainingOptions options = options_of();
  options.evaluate = true;
  const Step step = step_of(loss);
  ASSERT_GT(heads_in(record_step(step, options)), 0);
  Training training(step, options), whole(step_of(loss, {.cross_entropy = false}), options);
  EXPECT_LT(training.plan().arena_bytes, whole.plan().arena_bytes - kSequences * 30 * kWords * 4);
  training.start();
  EagerStep eager(step, options);
  eager.copy_from(training);
  for (int i = 0; i < 3; ++i) {
    const Batch batch = batch_of(i);
    expect_loss(training.step({batch}, 0.1).loss, eager.step({batch}, 0.1));
  }
  const auto reference = eager.state();
  for (const auto& [key, tensor] : training.state())
    EXPECT_LT((tensor - reference.at(key)).abs().max().item<double>(), 2e-6) << key;
  const Batch batch = batch_of(9);
  expect_loss(training.evaluate(batch), eager.step({batch}, 0.1));
}

TEST(LossHead, HasTheValuesOfEagerInBfloat16) {
  const auto half = [](auto& m, auto& x, auto& y) {
    return torch::cross_entropy_loss(rows(torch::linear(x, m.head).to(torch::kFloat)), y.view(-1));
  };
  const Step step = step_of(half);
  ASSERT_EQ(heads_in(record_step(step, options_of(Precision::bf16_mixed))), 1);
  Training training(step, options_of(Precision::bf16_mixed)), exact(step, options_of());
  training.start();
  exact.start();
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(training.step({batch_of(i)}, 0.1).loss, exact.step({batch_of(i)}, 0.1).loss, 0.02);
}

// Gradients of the sum over tokens may be more than float16 holds.
TEST(LossHead, InFloat16IsRecordedAsItIs) {
  EXPECT_EQ(heads_in(record_step(step_of(replaced()[0].second), options_of(Precision::fp16_mixed))), 0);
}

// The gradient of the loss by other tensors leaves the head replaced.
TEST(LossHead, HasGradientsOfItsOperandsBeforeTheBackwardPass) {
  const auto loss = [](auto& m, auto& x, auto& y) {
    const Tensor loss = torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1));
    const auto gradients = torch::autograd::grad({loss}, {m.head, x}, {}, /*retain_graph=*/true);
    return loss + gradients[0].detach().square().sum() + gradients[1].detach().square().sum();
  };
  const Step step = step_of(loss);
  ASSERT_EQ(heads_in(record_step(step, options_of())), 1);
  Training training(step, options_of());
  training.start();
  EagerStep eager(step, options_of());
  eager.copy_from(training);
  EXPECT_NEAR(training.step({batch_of(1)}, 0.1).loss, eager.step({batch_of(1)}, 0.1), 2e-6);
}

// Under autocast libtorch computes the likelihood in float32, of logarithms in bfloat16, and leaves a head that is
// outside of the autocast in float32.
TEST(LossHead, OfALikelihoodUnderAutocastIsFloat32) {
  const auto loss = [](auto& m, auto& x, auto& y) {
    const Tensor loss = torch::nll_loss_nd(rows(torch::linear(x, m.head)).log_softmax(-1), y.view(-1));
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    return loss;
  };
  EXPECT_EQ(heads_in(record_step(step_of(loss), options_of(Precision::bf16_mixed))), 1);
}

// The other rows of the buffer have no source.
TEST(LossHead, OfLogitsThatFillAPartOfABufferIsRecordedAsItIs) {
  const auto loss = [](auto& m, auto& x, auto& y) {
    Tensor all = torch::empty({kSequences, kTokens + 1, kWords});
    all.slice(1, 0, kTokens).copy_(torch::linear(x, m.head));
    return torch::cross_entropy_loss(rows(all.slice(1, 1)), y.view(-1));
  };
  EXPECT_EQ(heads_in(record_step(step_of(loss), options_of())), 0);
}

TEST(LossHead, RefusesLabelsOfOtherSizes) {
  const auto loss = [](auto& m, auto& x, auto& y) {
    return torch::cross_entropy_loss(torch::linear(x, m.head).transpose(1, 2), y.t().contiguous());
  };
  EXPECT_THROW(record_step(step_of(loss), options_of()), UserError);
}

// libtorch's mean over no token is NaN, and its gradients are 0.
TEST(LossHead, WithoutATokenIsNotANumber) {
  const Step step = step_of(replaced()[0].second);
  Training training(step, options_of());
  training.start();
  Batch batch = batch_of(1);
  batch["targets"].fill_(-100);
  EXPECT_TRUE(std::isnan(training.step({batch}, 0.1).loss));
  const Step sum = step_of(replaced()[5].second);
  Training summed(sum, options_of());
  summed.start();
  EXPECT_EQ(summed.step({batch}, 0.1).loss, 0);
}

TEST(LossHead, IsRecordedForEveryMicroBatch) {
  TrainingOptions options = options_of();
  options.accumulate = true;
  options.evaluate = true;
  const Trace trace = record_step(step_of(replaced()[0].second), options);
  EXPECT_EQ(heads_in(trace), 2);
  EXPECT_EQ(std::ranges::count(trace.ops, "plimsoll::linear_cross_entropy_loss", &Op::name), 1);
}

const std::vector<std::pair<std::string, Loss>>& recorded_as_they_are() {
  static const std::vector<std::pair<std::string, Loss>> losses = {
      {"logits that are read elsewhere",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = rows(torch::linear(x, m.head));
         return torch::cross_entropy_loss(logits, y.view(-1)) + 1e-4 * logits.logsumexp(-1).square().mean();
       }},
      {"logarithms that are read elsewhere",
       [](auto& m, auto& x, auto& y) {
         const Tensor logarithms = rows(torch::linear(x, m.head)).log_softmax(-1);
         return torch::nll_loss_nd(logarithms, y.view(-1)) + 1e-4 * logarithms.mean();
       }},
      {"a bias", [](auto& m, auto& x,
                    auto& y) { return torch::cross_entropy_loss(rows(torch::linear(x, m.head, m.bias)), y.view(-1)); }},
      {"scaled logits",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)) * 0.5, y.view(-1));
       }},
      {"logits changed in place",
       [](auto& m, auto& x, auto& y) {
         Tensor logits = torch::linear(x, m.head);
         logits.slice(-1, 0, 3).fill_(-9);
         return torch::cross_entropy_loss(rows(logits), y.view(-1));
       }},
      {"an input changed in place",
       [](auto& m, auto& x, auto& y) {
         Tensor input = x * 1;
         const Tensor logits = torch::linear(input, m.head.detach());
         input.mul_(2);
         return torch::cross_entropy_loss(rows(logits), y.view(-1)) + 0 * m.head.sum();
       }},
      {"smoothed labels",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1), {}, at::Reduction::Mean, -100,
                                          0.1);
       }},
      {"weights of classes",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1), m.bias.detach().abs());
       }},
      {"a loss for each token",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1), {}, at::Reduction::None).sum();
       }},
      {"logits without their gradient",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head).detach()), y.view(-1)) + x.sum();
       }},
      {"a gradient that a hook changes",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         logits.register_hook([](const Tensor& gradient) { return gradient * 2; });
         return torch::cross_entropy_loss(rows(logits), y.view(-1));
       }},
      {"a gradient that a hook changes, registered later",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         const Tensor loss = torch::cross_entropy_loss(rows(logits), y.view(-1));
         logits.register_hook([](const Tensor& gradient) { return gradient * 2; });
         return loss;
       }},
      {"the gradient of the logits",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         const Tensor loss = torch::cross_entropy_loss(rows(logits), y.view(-1));
         const Tensor gradient = torch::autograd::grad({loss}, {logits}, {}, /*retain_graph=*/true)[0];
         return loss + 100 * gradient.detach().square().sum() + (gradient.detach() * logits).sum();
       }},
      {"the gradient of the logits, if there is one",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         const Tensor loss = torch::cross_entropy_loss(rows(logits), y.view(-1));
         const Tensor gradient = torch::autograd::grad({loss}, {logits}, {}, true, false, /*allow_unused=*/true)[0];
         return gradient.defined() ? loss + 100 * gradient.detach().square().sum() : loss;
       }},
      {"rows in another order",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head).transpose(0, 1)), y.t().reshape(-1));
       }},
      {"some classes",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(torch::linear(x, m.head).slice(-1, 0, kWords / 2).reshape({-1, kWords / 2}),
                                          y.view(-1).clamp_max(kWords / 2 - 1));
       }},
  };
  return losses;
}

class OtherLoss : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, OtherLoss, ::testing::Range<size_t>(0, recorded_as_they_are().size()));

// Losses of rows are rounded differently (loss_rows_test.cpp).
TEST_P(OtherLoss, HasTheBitsOfEager) {
  const auto& [name, loss] = recorded_as_they_are()[GetParam()];
  SCOPED_TRACE(name);
  int64_t seed = 0;
  testing::expect_equal(
      step_of(loss, {.loss_rows = false}), options_of(), [&] { return batch_of(++seed); }, 2, 1);
}

TEST(LossHead, HasTheBitsOfEagerIfItIsNotReplaced) {
  int64_t seed = 0;
  testing::expect_equal(
      step_of(replaced()[0].second, {.cross_entropy = false, .loss_rows = false}), options_of(),
      [&] { return batch_of(++seed); }, 2, 1);
}

}  // namespace
}  // namespace plimsoll::loss_head_test
