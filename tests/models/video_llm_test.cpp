#include "models/video_llm.h"

#include <gmock/gmock.h>
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

constexpr int64_t kFrames = 3, kText = 7;

VideoLlmConfig small_video_llm() {
  VideoLlmConfig config;
  config.image_size = 16;
  config.vision = {.patch = 4, .width = 16, .depth = 2, .num_heads = 2};
  config.llm.vocab_size = 50;
  config.llm.hidden_size = 24;
  config.llm.num_layers = 2;
  config.llm.num_heads = 2;
  return config;
}

StepInputs random_inputs(int64_t batch) {
  StepInputs inputs;
  inputs.set("frames", torch::randn({batch, kFrames, 3, 16, 16}));
  inputs.set("tokens", torch::randint(50, {batch, kText}));
  torch::Tensor targets = torch::randint(50, {batch, kText});
  for (int64_t i = 0; i < batch; ++i) targets[i].slice(0, 0, 1 + i % 3).fill_(-100);  // captions of several lengths
  inputs.set("targets", targets);
  inputs.set(kSampleMask, torch::ones({batch}));
  return inputs;
}

StepInputs rows_of(const StepInputs& inputs, int64_t first, int64_t count) {
  StepInputs some;
  for (const char* name : {"frames", "tokens", "targets", kSampleMask})
    some.set(name, inputs[name].narrow(0, first, count));
  return some;
}

TEST(VideoLlm, EveryPartLearns) {
  torch::manual_seed(1);
  const Step step = video_llm_step(small_video_llm(), kFrames, kText, 2);
  const auto model = step.model();
  step.loss(*model, random_inputs(2)).backward();
  for (const auto& entry : model->named_parameters()) {
    ASSERT_TRUE(entry.value().grad().defined()) << entry.key();
    EXPECT_GT(entry.value().grad().abs().max().item<double>(), 0) << entry.key();
  }
}

// A batch's loss does not depend on how it is cut into micro batches, though its captions differ in length.
TEST(VideoLlm, MicroBatchesAddUp) {
  torch::manual_seed(2);
  const Step step = video_llm_step(small_video_llm(), kFrames, kText, 4);
  const auto model = step.model();
  const StepInputs inputs = random_inputs(4);
  const double whole = step.loss(*model, inputs).item<double>();
  const double parts = step.loss(*model, rows_of(inputs, 0, 1)).item<double>() / 4 +
                       step.loss(*model, rows_of(inputs, 1, 3)).item<double>() * 3 / 4;
  EXPECT_NEAR(parts, whole, 1e-6 * whole);
}

// The loss and the metrics by hand: plain logits and plain cross entropy.
TEST(VideoLlm, LossAndMetricsAreThoseOfTheLogits) {
  torch::manual_seed(3);
  const Step step = video_llm_step(small_video_llm(), kFrames, kText, 3);
  const auto module = step.model();
  module->eval();
  StepInputs inputs = random_inputs(3);
  auto& model = static_cast<model::VideoLlmImpl&>(*module);
  const torch::Tensor logits =
      at::matmul(model.hidden(inputs["frames"], inputs["tokens"]), model.llm().head().transpose(0, 1));
  // One caption as greedy decoding predicts it, one row that does not count.
  inputs["targets"][0].copy_(logits[0].argmax(-1));
  const torch::Tensor counted = torch::tensor({1.0f, 1.0f, 0.0f});
  inputs.set(kSampleMask, counted);
  const Evaluation evaluation = step.evaluation(*module, inputs);
  std::map<std::string, torch::Tensor> sums;
  for (const auto& [name, sum] : evaluation.sums) sums[name] = sum.to(torch::kDouble);

  const torch::Tensor targets = inputs["targets"].narrow(0, 0, 2).reshape({-1});
  const torch::Tensor flat = logits.narrow(0, 0, 2).reshape({-1, 50});
  const double nats = at::cross_entropy_loss(flat, targets, {}, at::Reduction::Sum, -100).item<double>();
  const double tokens = targets.ne(-100).sum().item<double>();
  const double right = flat.argmax(-1).eq(targets).sum().item<double>();
  const auto metrics = step.metrics(sums);
  EXPECT_EQ(metrics[0].first, "captions_right");
  EXPECT_DOUBLE_EQ(metrics[0].second, 0.5);
  EXPECT_NEAR(metrics[1].second, right / tokens, 1e-6);
  EXPECT_NEAR(metrics[2].second, nats / tokens, 1e-5);
  EXPECT_NEAR(evaluation.loss.item<double>(), nats / (2 * kText), 1e-5);
}

// The text does not see the text after it, but every frame; the encoder tells the position of an object in a picture.
TEST(VideoLlm, TheTextSeesTheVideo) {
  torch::manual_seed(4);
  const Step step = video_llm_step(small_video_llm(), kFrames, kText, 1);
  const auto module = step.model();
  auto& model = static_cast<model::VideoLlmImpl&>(*module);
  const StepInputs inputs = random_inputs(1);
  const torch::Tensor before = model.hidden(inputs["frames"], inputs["tokens"]);
  for (int64_t frame = 0; frame < kFrames; ++frame) {
    torch::Tensor changed = inputs["frames"].clone();
    changed[0][frame].narrow(-1, 0, 4).neg_();
    EXPECT_GT((model.hidden(changed, inputs["tokens"]) - before)[0][0].abs().max().item<double>(), 1e-6) << frame;
  }
  const torch::Tensor swapped = inputs["frames"].flip(1);
  EXPECT_GT((model.hidden(swapped, inputs["tokens"]) - before).abs().max().item<double>(), 1e-6);
  torch::Tensor tokens = inputs["tokens"].clone();
  tokens[0][kText - 1] = (tokens[0][kText - 1] + 1) % 50;
  EXPECT_TRUE(
      torch::equal(model.hidden(inputs["frames"], tokens).narrow(1, 0, kText - 1), before.narrow(1, 0, kText - 1)));
}

TEST(VideoLlm, TheLanguageModelHasATypeOfItsOwn) {
  VideoLlmConfig config = small_video_llm();
  config.llm_dtype = DType::bfloat16;
  const Step step = video_llm_step(config, kFrames, kText, 2);
  const auto model = step.model();
  for (const auto& entry : model->named_parameters())
    EXPECT_EQ(entry.value().scalar_type(), entry.key().starts_with("llm.") ? torch::kBFloat16 : torch::kFloat)
        << entry.key();
  const torch::Tensor loss = step.loss(*model, random_inputs(2));
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  loss.backward();
}

TEST(VideoLlm, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const auto& change) {
    VideoLlmConfig config = small_video_llm();
    change(config);
    return refusal_of([&] { video_llm_step(config, kFrames, kText, 1); });
  };
  EXPECT_THAT(refusal([](auto& c) { c.vision.patch = 5; }), HasSubstr("model.vision.patch is 5; it must divide"));
  EXPECT_THAT(refusal([](auto& c) { c.vision.num_heads = 3; }), HasSubstr("model.vision.num_heads is 3"));
  EXPECT_THAT(refusal([](auto& c) { c.tokens_per_frame = 5; }),
              HasSubstr("a frame of 4 x 4 patches can be averaged to 1, 4, 16"));
  EXPECT_THAT(refusal([](auto& c) { c.tokens_per_frame = 9; }), HasSubstr("model.tokens_per_frame is 9"));
}

}  // namespace
}  // namespace plimsoll
