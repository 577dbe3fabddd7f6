#include "models/prompt_segmentation.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "models/config_checks.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

PromptSegmentationConfig small_segmentation() {
  PromptSegmentationConfig config;
  config.image_size = 48;  // features of 3 x 3 and windows of 2: maps are padded
  config.prompt_length = 6;
  config.image_tokens = 9;
  config.encoder.widths = {4, 6, 8, 8};
  config.encoder.num_heads = {2, 2, 4};
  config.encoder.windows = {4, 2, 2};
  config.encoder.expansion = 2;
  config.llm.hidden_size = 16;
  config.llm.num_layers = 1;
  config.llm.num_heads = 2;
  config.llm.vocab_size = 40;
  config.llm.tie_embeddings = false;
  config.decoder = {.width = 16, .depth = 1, .num_heads = 2, .intermediate_size = 8};
  config.loss = {.bce = 1, .dice = 1, .text = 0.5};
  return config;
}

using Inputs = std::map<std::string, torch::Tensor>;

Inputs random_prompts(const Step& step) {
  Inputs inputs;
  for (const InputSpec& spec : step.inputs)
    inputs[spec.name] = spec.dtype == torch::kFloat ? torch::randn(spec.sizes)
                                                    : torch::randint(spec.values, spec.sizes, torch::dtype(spec.dtype));
  inputs["read_at"] = torch::zeros(inputs["read_at"].sizes());
  inputs["read_at"].select(1, 4).fill_(1);
  inputs[kSampleMask] = torch::ones(inputs[kSampleMask].sizes());
  return inputs;
}

StepInputs named(const Inputs& inputs) {
  StepInputs all;
  for (const auto& [name, tensor] : inputs) all.set(name, tensor);
  return all;
}

double loss_value(const Step& step, torch::nn::Module& model, const Inputs& inputs) {
  const torch::NoGradGuard no_grad;
  return step.loss(model, named(inputs)).item<double>();
}

TEST(PromptSegmentation, EveryPartLearns) {
  torch::manual_seed(1);
  const Step step = prompt_segmentation_step(small_segmentation(), 2);
  const auto model = step.model();
  step.loss(*model, named(random_prompts(step))).backward();
  for (const auto& entry : model->named_parameters()) {
    ASSERT_TRUE(entry.value().grad().defined()) << entry.key();
    EXPECT_GT(entry.value().grad().abs().max().item<double>(), 0) << entry.key();
  }
}

TEST(PromptSegmentation, WithoutTextOrImageTokensTheyAreLeftOut) {
  torch::manual_seed(2);
  PromptSegmentationConfig config = small_segmentation();
  config.loss.text = 0;
  config.image_tokens = 0;
  const Step step = prompt_segmentation_step(config, 2);
  const auto model = step.model();
  step.loss(*model, named(random_prompts(step))).backward();
  for (const auto& entry : model->named_parameters()) {
    EXPECT_FALSE(entry.key().starts_with("image_projection")) << entry.key();
    EXPECT_EQ(entry.value().grad().defined(), entry.key() != "llm.head") << entry.key();
  }
}

TEST(PromptSegmentation, ReadsThePromptUpToWhereItIsAsked) {
  torch::manual_seed(3);
  PromptSegmentationConfig config = small_segmentation();
  config.loss.text = 0;
  const Step step = prompt_segmentation_step(config, 2);
  const auto model = step.model();
  model->eval();
  Inputs inputs = random_prompts(step);
  const double before = loss_value(step, *model, inputs);
  inputs["tokens"].select(1, 5).fill_(3);  // behind it
  EXPECT_EQ(loss_value(step, *model, inputs), before);
  inputs["tokens"].select(1, 0).add_(1).remainder_(40);
  EXPECT_NE(loss_value(step, *model, inputs), before);
}

TEST(PromptSegmentation, SamplesThatDoNotCountChangeNothing) {
  torch::manual_seed(4);
  const Step one = prompt_segmentation_step(small_segmentation(), 1),
             two = prompt_segmentation_step(small_segmentation(), 2);
  const auto model = one.model();
  Inputs inputs = random_prompts(two), first;
  inputs[kSampleMask].select(0, 1).fill_(0);
  for (const auto& [name, tensor] : inputs) first[name] = tensor.narrow(0, 0, 1);
  EXPECT_NEAR(loss_value(two, *model, inputs), loss_value(one, *model, first), 1e-5);
  const torch::NoGradGuard no_grad;
  const Evaluation all = two.evaluation(*model, named(inputs)), alone = one.evaluation(*model, named(first));
  EXPECT_NEAR(all.loss.item<double>(), alone.loss.item<double>(), 1e-5);
  for (size_t i = 0; i < all.sums.size(); ++i)
    EXPECT_NEAR(all.sums[i].second.item<double>(), alone.sums[i].second.item<double>(), 1e-5) << all.sums[i].first;
}

TEST(PromptSegmentation, TheLossIsTheMeanOverSamplesHoweverTheyAreCut) {
  torch::manual_seed(5);
  const Step one = prompt_segmentation_step(small_segmentation(), 1),
             three = prompt_segmentation_step(small_segmentation(), 3);
  const auto model = one.model();
  Inputs inputs = random_prompts(three);
  inputs["targets"].select(0, 1).narrow(0, 0, 4).fill_(-100);  // answers of different length
  double sum = 0;
  for (int64_t i = 0; i < 3; ++i) {
    Inputs part;
    for (const auto& [name, tensor] : inputs) part[name] = tensor.narrow(0, i, 1);
    sum += loss_value(one, *model, part);
  }
  EXPECT_NEAR(loss_value(three, *model, inputs), sum / 3, 1e-5 * sum);
}

TEST(PromptSegmentation, TheLossIsWhatItsFormulaSays) {
  torch::manual_seed(6);
  PromptSegmentationConfig config = small_segmentation();
  config.loss = {.bce = 0.7, .dice = 0.3, .text = 0};
  const Step step = prompt_segmentation_step(config, 2);
  const auto model = step.model();
  const Inputs inputs = random_prompts(step);
  const torch::NoGradGuard no_grad;
  auto& ours = static_cast<model::PromptSegmentationImpl&>(*model);
  const auto logits = ours.forward(inputs.at("image"), inputs.at("tokens"), inputs.at("read_at")).logits;
  ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{2, 48, 48}));
  const auto wanted = inputs.at("mask").to(torch::kFloat);
  const auto bce = torch::binary_cross_entropy_with_logits(logits, wanted);
  const auto p = torch::sigmoid(logits);
  const auto area = [](const torch::Tensor& x) { return x.sum({1, 2}); };
  const auto dice = ((2 * area(p * wanted) + 1) / (area(p) + area(wanted) + 1)).mean();
  EXPECT_NEAR(loss_value(step, *model, inputs), (0.7 * bce + 0.3 * (1 - dice)).item<double>(), 1e-5);
}

TEST(PromptSegmentation, DiceIsOneForTheMaskItself) {
  torch::manual_seed(7);
  const Step step = prompt_segmentation_step(small_segmentation(), 2);
  const auto model = step.model();
  Inputs inputs = random_prompts(step);
  const torch::NoGradGuard no_grad;
  auto& ours = static_cast<model::PromptSegmentationImpl&>(*model);
  const auto logits = ours.forward(inputs["image"], inputs["tokens"], inputs["read_at"]).logits;
  const auto dice = [&](const torch::Tensor& mask) {
    inputs["mask"] = mask.to(torch::kByte);
    std::map<std::string, torch::Tensor> sums;
    for (const auto& [name, value] : step.evaluation(*model, named(inputs)).sums) sums[name] = value;
    const auto metrics = step.metrics(sums);
    EXPECT_EQ(metrics.size(), 1u);
    EXPECT_EQ(metrics[0].first, "dice");
    return metrics[0].second;
  };
  ASSERT_TRUE((logits > 0).any().item<bool>());
  EXPECT_NEAR(dice(logits > 0), (logits > 0).flatten(1).any(1).to(torch::kDouble).mean().item<double>(), 1e-6);
  EXPECT_NEAR(dice(logits <= 0), 0, 1e-6);
}

TEST(PromptSegmentation, WindowsSeeOnlyThemselvesAndTheirNeighborsConvolution) {
  torch::manual_seed(8);
  model::WindowBlock block(8, 2, 4, 2);
  const torch::NoGradGuard no_grad;
  torch::Tensor x = torch::randn({1, 12, 12, 8});
  const torch::Tensor before = block->forward(x);
  ASSERT_EQ(before.sizes(), x.sizes());
  x = x.clone();
  x[0][0][0].add_(1);  // in the first window, of 4 x 4; the convolution carries it one further
  const torch::Tensor changed = (block->forward(x) - before).abs().amax(3)[0] > 0;
  EXPECT_TRUE(changed.narrow(0, 0, 4).narrow(1, 0, 4).all().item<bool>());
  EXPECT_FALSE(changed.narrow(0, 5, 7).any().item<bool>());
  EXPECT_FALSE(changed.narrow(1, 5, 7).any().item<bool>());
}

// Norms over channels remove a pixel's scale: an encoder that begins with one sees the sign of an even patch alone.
TEST(PromptSegmentation, TheEncoderSeesBrightness) {
  torch::manual_seed(10);
  model::ImageEncoder encoder(small_segmentation().encoder, 1, 16);
  const torch::NoGradGuard no_grad;
  const auto gray = encoder->forward(torch::full({1, 48, 48, 1}, 1.0)),
             bright = encoder->forward(torch::full({1, 48, 48, 1}, 2.0));
  ASSERT_EQ(gray.fine.sizes(), (std::vector<int64_t>{1, 12, 12, 4}));
  ASSERT_EQ(gray.coarse.sizes(), (std::vector<int64_t>{1, 3, 3, 16}));
  const auto difference = [](const torch::Tensor& a, const torch::Tensor& b) {
    return (a - b).norm().item<double>() / a.norm().item<double>();
  };
  EXPECT_GT(difference(gray.fine, bright.fine), 0.01);
  EXPECT_GT(difference(gray.coarse, bright.coarse), 0.01);
}

TEST(PromptSegmentation, AFineFeatureIsSeenInItsPlaceOfTheMask) {
  torch::manual_seed(11);
  model::MaskDecoder decoder(small_segmentation().decoder, 3, 4);
  const torch::NoGradGuard no_grad;
  model::ImageFeatures features{.fine = torch::randn({1, 12, 12, 4}), .coarse = torch::randn({1, 3, 3, 16})};
  const torch::Tensor prompt = torch::randn({1, 1, 16}), before = decoder->forward(features, prompt);
  ASSERT_EQ(before.sizes(), (std::vector<int64_t>{1, 12, 12}));
  features.fine[0][5][7].add_(1);
  const torch::Tensor changed = (decoder->forward(features, prompt) - before).abs()[0] > 0;
  EXPECT_TRUE(changed[5][7].item<bool>());
  EXPECT_EQ(changed.sum().item<int64_t>(), 1);
}

TEST(PromptSegmentation, UpscaleIsATransposedConvolution) {
  torch::manual_seed(9);
  model::Upscale upscale(6, 3);
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({2, 4, 5, 6});
  const auto parameters = upscale->named_parameters();
  // [4 x out, in], rows by pixel and channel -> [in, out, 2, 2]; a bias a pixel, here all alike.
  const torch::Tensor weight = parameters["pixels.weight"].view({2, 2, 3, 6}).permute({3, 2, 0, 1});
  parameters["pixels.bias"].copy_(torch::tensor({0.1f, 0.2f, 0.3f}).repeat({4}));
  const torch::Tensor expected =
      torch::conv_transpose2d(x.permute({0, 3, 1, 2}), weight, torch::tensor({0.1f, 0.2f, 0.3f}), 2);
  EXPECT_TRUE(torch::allclose(upscale->forward(x), expected.permute({0, 2, 3, 1}), 1e-5, 1e-5));
}

TEST(PromptSegmentation, TheLossIsFloat32InBfloat16) {
  const Step step = prompt_segmentation_step(small_segmentation(), 2);
  const auto model = step.model();
  model->to(torch::kBFloat16);
  Inputs inputs = random_prompts(step);
  for (auto& [name, tensor] : inputs)
    if (tensor.is_floating_point()) tensor = tensor.to(torch::kBFloat16);
  EXPECT_EQ(step.loss(*model, named(inputs)).scalar_type(), torch::kFloat);
}

TEST(PromptSegmentation, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const auto& change) {
    PromptSegmentationConfig config = small_segmentation();
    change(config);
    return refusal_of([&] { prompt_segmentation_step(config, 1); });
  };
  EXPECT_THAT(refusal([](auto& c) { c.image_size = 40; }), HasSubstr("model.image_size is 40; it must be a multiple"));
  EXPECT_THAT(refusal([](auto& c) { c.image_tokens = 4; }), HasSubstr("model.image_tokens is 4"));
  EXPECT_THAT(refusal([](auto& c) { c.image_tokens = 8; }), HasSubstr("model.image_tokens is 8"));
  EXPECT_THAT(refusal([](auto& c) { c.encoder.num_heads[1] = 3; }), HasSubstr("model.encoder.num_heads has 3"));
  EXPECT_THAT(refusal([](auto& c) { c.encoder.depths[2] = 0; }), HasSubstr("model.encoder.depths has 0"));
  EXPECT_THAT(refusal([](auto& c) { c.encoder.widths[0] = 3; }), HasSubstr("begins with 3"));
  EXPECT_THAT(refusal([](auto& c) { c.decoder.width = 12; }), HasSubstr("model.decoder.width is 12"));
  EXPECT_THAT(refusal([](auto& c) { c.decoder.num_heads = 3; }), HasSubstr("model.decoder.num_heads has 3"));
  EXPECT_THAT(refusal([](auto& c) { c.loss.bce = c.loss.dice = 0; }), HasSubstr("nothing would learn masks"));
}

TEST(PromptSegmentation, TheExampleHasAMistralOf7241732096Parameters) {
  const Job job = read_job(PLIMSOLL_SOURCE_DIR "/examples/prompt-segmentation/job.yaml");
  const Trace trace = record_step(step_of(job, 1), options_of(job));
  std::map<std::string, int64_t> parameters;
  for (const NamedView& entry : trace.state)
    if (trace.buffers[entry.view.buffer].role == Role::parameter)
      parameters[entry.name.substr(0, entry.name.find('.'))] += entry.view.elements();
  EXPECT_EQ(parameters["llm"], 7'241'732'096);
  EXPECT_GT(parameters["encoder"], 5'000'000);  // TinyViT-5M
  EXPECT_LT(parameters["encoder"], 7'000'000);
}

}  // namespace
}  // namespace plimsoll
