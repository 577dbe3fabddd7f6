#include "models/gesture_ssm.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVectors = 21;

GestureSsmConfig small_ssm(const std::string& share_weights = "false") {
  GestureSsmConfig config;
  config.channels = 3;
  config.num_classes = 5;
  config.hidden_dim = 12;
  config.num_layers = 3;
  config.d_state = 6;
  config.head_dim = 8;
  config.chunk_size = 8;
  config.pooling_scales = {2};
  config.share_weights = share_weights;
  return config;
}

StepInputs random_series(const Step& step, torch::ScalarType dtype = torch::kFloat) {
  StepInputs inputs;
  for (const InputSpec& spec : step.inputs)
    inputs.set(spec.name, spec.name == kSampleMask     ? torch::ones(spec.sizes)
                          : spec.dtype == torch::kLong ? torch::randint(spec.values, spec.sizes, torch::kLong)
                                                       : torch::randn(spec.sizes).to(dtype));
  return inputs;
}

int64_t parameters_of(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// The header's formula; a mixer of width w = 24 with 3 heads.
TEST(GestureSsm, SharesItsWeightsAsItIsTold) {
  constexpr int64_t mixer = 12 * (3 * 24 + 2 * 6 + 3) + (24 + 2 * 6) * 5 + 24 + 3 * 3;
  constexpr int64_t rest = (4 * 12 + 12) + 3 * 12 + 2 * 12 + (2 * 12 * 5 + 5);  // embedding, norms, head
  for (const auto& [share, mixers] : {std::pair{"false", 6}, {"bidirectional", 3}, {"true", 1}})
    EXPECT_EQ(parameters_of(*gesture_ssm_step(small_ssm(share), 1, kVectors).model()), mixers * mixer + rest) << share;
}

TEST(GestureSsm, EveryPartLearns) {
  for (const char* share : {"false", "bidirectional", "true"}) {
    torch::manual_seed(1);
    const Step step = gesture_ssm_step(small_ssm(share), 3, kVectors);
    const auto model = step.model();
    step.loss(*model, random_series(step)).backward();
    for (const auto& entry : model->named_parameters()) {
      ASSERT_TRUE(entry.value().grad().defined()) << share << " " << entry.key();
      EXPECT_GT(entry.value().grad().abs().max().item<double>(), 0) << share << " " << entry.key();
    }
  }
}

TEST(GestureSsm, HasTheGradientOfFiniteDifferences) {
  torch::manual_seed(2);
  const Step step = gesture_ssm_step(small_ssm("bidirectional"), 2, kVectors);
  const auto model = step.model();
  model->to(torch::kDouble);
  const StepInputs inputs = random_series(step, torch::kDouble);
  step.loss(*model, inputs).backward();
  const torch::NoGradGuard no_grad;
  for (const auto& entry : model->named_parameters()) {
    torch::Tensor flat = entry.value().view({-1});
    for (int64_t i = 0; i < flat.numel(); i += 1 + flat.numel() / 3) {
      const double before = flat[i].item<double>();
      const auto loss_at = [&](double value) {
        flat[i].fill_(value);
        return step.loss(*model, inputs).item<double>();
      };
      const double slope = (loss_at(before + 1e-5) - loss_at(before - 1e-5)) / 2e-5;
      flat[i].fill_(before);
      EXPECT_NEAR(entry.value().grad().view({-1})[i].item<double>(), slope, 1e-7 + 1e-5 * std::abs(slope))
          << entry.key();
    }
  }
}

// Sharing a mixer between the directions computes its projections once; what comes out is the same.
TEST(GestureSsm, BothDirectionsAtOnceAreOneAfterTheOther) {
  torch::manual_seed(3);
  model::MambaMixer mixer(model::mixer_of(small_ssm()), 0.1);
  const torch::Tensor x = torch::randn({2, kVectors, 12});
  EXPECT_TRUE(torch::allclose(mixer->both(x), mixer(x, false) + mixer(x, true), 1e-4, 1e-6));
  EXPECT_TRUE(torch::allclose(mixer(x.flip(1), true), mixer(x, false).flip(1), 1e-4, 1e-6));
}

TEST(GestureSsm, ADirectionSeesOneSide) {
  torch::manual_seed(4);
  model::MambaMixer mixer(model::mixer_of(small_ssm()), 0.1);
  torch::Tensor x = torch::randn({1, kVectors, 12});
  const torch::Tensor before = mixer(x, false), behind = mixer(x, true);
  x.select(1, 10).add_(1);
  const torch::Tensor changed = (mixer(x, false) - before).abs().amax({0, 2});
  const torch::Tensor changed_behind = (mixer(x, true) - behind).abs().amax({0, 2});
  EXPECT_EQ(changed.narrow(0, 0, 10).max().item<double>(), 0);
  EXPECT_GT(changed.narrow(0, 10, kVectors - 10).min().item<double>(), 0);
  EXPECT_EQ(changed_behind.narrow(0, 11, kVectors - 11).max().item<double>(), 0);
  EXPECT_GT(changed_behind.narrow(0, 0, 11).min().item<double>(), 0);
}

TEST(GestureSsm, PoolsMeansOfWhatThereIs) {
  const torch::Tensor x = torch::arange(7, torch::kFloat).view({1, 7, 1});
  const auto pooled = [&](int64_t factor) { return model::mean_pooled(x, factor).flatten(); };
  EXPECT_TRUE(torch::equal(pooled(2), torch::tensor({0.5F, 2.5F, 4.5F, 6.0F})));
  EXPECT_TRUE(torch::equal(pooled(3), torch::tensor({1.0F, 4.0F, 6.0F})));
  EXPECT_TRUE(torch::equal(pooled(7), torch::tensor({3.0F})));
}

TEST(GestureSsm, WhatDoesNotCountIsWithoutEffect) {
  torch::manual_seed(5);
  const Step three = gesture_ssm_step(small_ssm(), 3, kVectors), two = gesture_ssm_step(small_ssm(), 2, kVectors);
  const auto model = three.model();
  model->eval();
  const torch::Tensor vectors = torch::randn({3, kVectors, 4}), labels = torch::tensor({1, 4, 2});
  StepInputs all, first;
  all.set("vectors", vectors), all.set("labels", labels), all.set(kSampleMask, torch::tensor({1.0F, 1.0F, 0.0F}));
  first.set("vectors", vectors.narrow(0, 0, 2)), first.set("labels", labels.narrow(0, 0, 2));
  first.set(kSampleMask, torch::ones({2}));
  const Evaluation a = three.evaluation(*model, all), b = two.evaluation(*model, first);
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), 1e-5);
  ASSERT_EQ(a.sums.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(a.sums[i].second.item<double>(), b.sums[i].second.item<double>());
  const auto metrics =
      three.metrics({{"right", torch::tensor(3.0, torch::kDouble)}, {"counted", torch::tensor(4.0, torch::kDouble)}});
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].first, "accuracy");
  EXPECT_EQ(metrics[0].second, 0.75);
}

TEST(GestureSsm, TheLossIsFloat32InBfloat16) {
  const Step step = gesture_ssm_step(small_ssm(), 2, kVectors);
  const auto model = step.model();
  model->to(torch::kBFloat16);
  EXPECT_EQ(step.loss(*model, random_series(step, torch::kBFloat16)).scalar_type(), torch::kFloat);
}

TEST(GestureSsm, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const auto& change) {
    GestureSsmConfig config = small_ssm();
    change(config);
    return refusal_of([&] { gesture_ssm_step(config, 1, kVectors); });
  };
  EXPECT_THAT(refusal([](auto& c) { c.head_dim = 7; }), HasSubstr("model.head_dim is 7; it must divide"));
  EXPECT_THAT(refusal([](auto& c) {
                c.pooling_scales = {2, 2, 2};
              }),
              HasSubstr("makes 4 scales; model.num_layers is 3"));
  EXPECT_THAT(refusal([](auto& c) { c.pooling_scales = {7, 4}; }), HasSubstr("has 4; 3 tokens are there"));
  EXPECT_THAT(refusal([](auto& c) { c.conv_width = 5; }), HasSubstr("model.conv_width is 5"));
  EXPECT_THAT(refusal([](auto& c) { c.share_weights = "some"; }), HasSubstr("model.share_weights is 'some'"));
}

}  // namespace
}  // namespace plimsoll
