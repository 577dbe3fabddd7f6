// Tests losses of a large linear layer that are computed in chunks of rows (the pass slice_rows): the values beside
// libtorch's, the bytes, and that a run takes the planned bytes.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "run/equality.h"
#include "run/loss_model.h"
#include "trace/trace_queries.h"

namespace plimsoll::loss_rows_test {
namespace {
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

constexpr int64_t kLogitsBytes = kSequences * kTokens * kWords * 4;
// The kernel of a mean over all elements allocates its divisor.
constexpr int64_t kUnplannedBytes = 8;

// Returns options with the budget in which only the plan with the smallest peak fits.
TrainingOptions with_smallest_budget(const Step& step, TrainingOptions options) {
  options.budget.device = Training(step, options).minimum_budget_bytes();
  return options;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, double smoothing,
                     int64_t reduction = at::Reduction::Mean) {
  return torch::cross_entropy_loss(logits, targets, {}, reduction, -100, smoothing);
}

// Returns the sum of the log-probabilities of the targets that are not ignored, for each sequence.
Tensor log_probabilities(const Tensor& logits, const Tensor& targets) {
  const Tensor counted = targets.ne(-100);
  const Tensor chosen =
      logits.log_softmax(-1).gather(2, targets.masked_fill(counted.logical_not(), 0).unsqueeze(2)).squeeze(2);
  return (chosen * counted).sum(-1);
}

struct Case {
  std::string name;
  Loss loss;
  double tolerance = 5e-6;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"smoothed labels",
       [](auto& m, auto& x, auto& y) { return cross_entropy(rows(torch::linear(x, m.head)), y.view(-1), 0.1); }},
      {"smoothed labels, tied to the embedding, classes before tokens",
       [](auto& m, auto& x, auto& y) {
         return cross_entropy(torch::linear(x, m.words).transpose(1, 2), y, 0.1, at::Reduction::Sum) / 60;
       },
       2e-5},  // libtorch's softmax over a dimension that is not the last has ten times the error
      {"weights of classes",
       [](auto& m, auto& x, auto& y) {
         return torch::cross_entropy_loss(rows(torch::linear(x, m.head)), y.view(-1), m.bias.detach().abs());
       }},
      {"a bias",
       [](auto& m, auto& x, auto& y) { return cross_entropy(rows(torch::linear(x, m.head, m.bias)), y.view(-1), 0); }},
      {"z-loss",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = rows(torch::linear(x, m.head));
         return cross_entropy(logits, y.view(-1), 0) + 1e-4 * logits.logsumexp(-1).square().mean();
       }},
      {"a soft cap",
       [](auto& m, auto& x, auto& y) {
         return cross_entropy(rows(3 * (torch::linear(x, m.head) / 3).tanh()), y.view(-1), 0);
       }},
      {"a loss for each token, with a mask",
       [](auto& m, auto& x, auto& y) {
         const Tensor losses = cross_entropy(rows(torch::linear(x, m.head)), y.view(-1), 0, at::Reduction::None);
         const Tensor mask = y.view(-1).remainder(3).ne(0).to(torch::kFloat);
         return (losses * mask).sum() / mask.sum();
       }},
      {"distillation",
       [](auto& m, auto& x, auto& y) {
         Tensor teacher;
         {
           const torch::NoGradGuard no_grad;
           teacher = torch::linear(x.square(), m.words);
         }
         const Tensor student = torch::linear(x, m.head);
         return torch::kl_div((student / 2).log_softmax(-1), (teacher / 2).softmax(-1), at::Reduction::Sum) / 80 +
                cross_entropy(rows(student), y.view(-1), 0);
       }},
      {"preferences",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head), labels = y.slice(1, 1).clone();
         const Tensor sums = log_probabilities(logits.slice(1, 0, kTokens - 1), labels);
         return -torch::log_sigmoid(0.1 * (sums[0] - sums[1]));
       }},
      {"preferences of two calls",
       [](auto& m, auto& x, auto& y) {
         const Tensor chosen = log_probabilities(torch::linear(x, m.head), y);
         const Tensor rejected = log_probabilities(torch::linear(x.square(), m.head), y);
         return -torch::log_sigmoid(0.1 * (chosen - rejected)).mean();
       }},
      {"logarithms of sigmoids",
       [](auto& m, auto& x, auto& y) {
         return -torch::log_sigmoid(torch::linear(x, m.head)).sum(-1).mean() * 1e-3 + 0 * y.sum();
       }},
      {"a part of the classes",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head).slice(-1, 0, kWords - 1000);
         return cross_entropy(logits.flatten(0, 1), y.view(-1).clamp_max(kWords - 1001), 0.1);
       }},
      {"means with scratch",
       [](auto& m, auto& x, auto& y) {
         const Tensor logits = torch::linear(x, m.head);
         return cross_entropy(rows(logits), y.view(-1), 0.1) + 1e-2 * logits.amax(-1).square().mean() +
                0.1 * logits.abs().mean();
       }},
      {"a mean of squares over tokens and classes",
       [](auto& m, auto& x, auto& y) {
         const Tensor student = torch::linear(x, m.head), teacher = torch::linear(x.square(), m.words).detach();
         return (student - teacher).square().mean() + cross_entropy(rows(student), y.view(-1), 0);
       }},
      {"an input that is a cast",
       [](auto& m, auto& x, auto& y) {
         const Tensor input = x.to(torch::kFloat).square();
         return cross_entropy(rows(torch::linear(input, m.head)), y.view(-1), 0.1);
       }},
      {"entropy",
       [](auto& m, auto& x, auto& y) {
         const Tensor p = torch::linear(x, m.head).softmax(-1);
         return (p * p.log()).sum(-1).mean() + 0 * y.sum();
       }},
  };
  return all;
}

// Returns the bytes of the largest buffer that is not persistent and holds no gradient of a parameter.
int64_t largest_temporary(const Plan& plan) {
  std::vector<char> used(plan.trace.buffers.size(), 0);
  for (const Op& op : plan.trace.ops) for_each_view(op, [&](const View& view, bool) { used[view.buffer] = 1; });
  int64_t largest = 0;
  for (size_t b = 0; b < used.size(); ++b)
    if (used[b] && !plan.trace.buffers[b].persistent) largest = std::max(largest, plan.trace.buffers[b].bytes);
  return largest;
}

class LossRows : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Each, LossRows, ::testing::Range<size_t>(0, cases().size()));

// Losses and parameters of two steps, and of an evaluation, beside the same steps of eager libtorch.
TEST_P(LossRows, HaveTheValuesOfEagerAndNoLogits) {
  const auto& [name, loss, tolerance] = cases()[GetParam()];
  SCOPED_TRACE(name);
  TrainingOptions options = options_of();
  options.evaluate = true;
  const Step step = step_of(loss);
  const TrainingOptions small = with_smallest_budget(step, options);
  Training training(step, small), whole(step_of(loss, {.loss_rows = false}), options);
  ASSERT_TRUE(training.plan().choices.loss_rows);
  EXPECT_FALSE(whole.plan().choices.loss_rows);
  EXPECT_LT(largest_temporary(training.plan()), kLogitsBytes / 3);
  EXPECT_LT(training.plan().peak_bytes, whole.minimum_budget_bytes() - kLogitsBytes);
  training.start();
  EagerStep eager(step, options);
  eager.copy_from(training);
  for (int i = 0; i < 2; ++i) {
    const Batch batch = batch_of(i);
    EXPECT_NEAR(training.step({batch}, 0.1).loss, eager.step({batch}, 0.1), 3e-6);
  }
  const auto reference = eager.state();
  for (const auto& [key, tensor] : training.state()) {
    const Tensor& expected = reference.at(key);
    const double largest = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LT((tensor - expected).abs().max().item<double>(), tolerance * largest) << key;
  }
  const Batch batch = batch_of(9);
  EXPECT_NEAR(training.evaluate(batch), eager.step({batch}, 0.1), 3e-6);
  EXPECT_LE(training.used().measured_peak(), training.plan().peak_bytes + kUnplannedBytes);
}

// Three micro batches, of which the last has one sequence. In bfloat16 the parts of a gradient are added in float32.
TEST(LossRows, AddUpGradientsOverMicroBatches) {
  for (const Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
    SCOPED_TRACE(name_of(precision));
    const double tolerance = precision == Precision::fp32_true ? 3e-6 : 2e-3;
    TrainingOptions options = options_of(precision);
    options.accumulate = true;
    options.micro_batches = 3;
    options.last_micro_batch = 1;
    for (const size_t number : {size_t{0}, size_t{4}, size_t{7}, cases().size() - 2}) {
      SCOPED_TRACE(cases()[number].name);
      const Step step = step_of(cases()[number].loss);
      Training training(step, with_smallest_budget(step, options));
      Training whole(step_of(cases()[number].loss, {.loss_rows = false}), options);
      ASSERT_TRUE(training.plan().choices.loss_rows);
      EXPECT_LT(largest_temporary(training.plan()), kLogitsBytes / 3);
      training.start();
      whole.start();
      for (int i = 0; i < 2; ++i) {
        std::vector<Batch> batches = {batch_of(3 * i), batch_of(3 * i + 1), batch_of(3 * i + 2)};
        for (auto& [name, tensor] : batches.back()) tensor = tensor.slice(0, 0, 1);
        EXPECT_NEAR(training.step(batches, 0.1).loss, whole.step(batches, 0.1).loss, tolerance);
      }
      std::map<std::string, Tensor> reference;
      for (const auto& [key, tensor] : whole.state()) reference[key] = tensor;
      for (const auto& [key, tensor] : training.state())
        EXPECT_LT((tensor - reference.at(key)).abs().max().item<double>(), tolerance) << key;
      EXPECT_LE(training.used().measured_peak(), training.plan().peak_bytes + kUnplannedBytes);
    }
  }
}

TEST(LossRows, MayHaveUpdatesInBackward) {
  const Step step = step_of(cases()[0].loss);
  TrainingOptions options = options_of();
  options.update_in_backward = Choice::on;
  Training training(step, with_smallest_budget(step, options)), whole(step_of(cases()[0].loss), options_of());
  ASSERT_TRUE(training.plan().choices.loss_rows);
  ASSERT_TRUE(training.plan().update_in_backward);
  training.start();
  whole.start();
  for (int i = 0; i < 2; ++i)
    EXPECT_NEAR(training.step({batch_of(i)}, 0.1).loss, whole.step({batch_of(i)}, 0.1).loss, 3e-6);
}

// libtorch's mean over no token is NaN, with gradients of 0.
TEST(LossRows, WithoutATokenAreNotANumber) {
  const Step step = step_of(cases()[0].loss);
  Training training(step, options_of());
  training.start();
  Batch batch = batch_of(1);
  batch["targets"].fill_(-100);
  EXPECT_TRUE(std::isnan(training.step({batch}, 0.1).loss));
}

TEST(LossRows, AreWholeIfTheStepFits) {
  const Training training(step_of(cases()[0].loss), options_of());
  EXPECT_FALSE(training.plan().choices.loss_rows);
  EXPECT_GT(largest_temporary(training.plan()), kLogitsBytes - 1);
}

}  // namespace
}  // namespace plimsoll::loss_rows_test
