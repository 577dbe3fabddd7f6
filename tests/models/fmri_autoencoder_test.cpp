#include "models/fmri_autoencoder.h"

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

FmriAutoencoderConfig small_autoencoder() {
  FmriAutoencoderConfig config;
  config.video = {.width = 16, .depth = 1, .decoder_depth = 1, .num_heads = 2};
  config.audio = {.width = 12, .depth = 1, .decoder_depth = 1, .num_heads = 2};
  config.text = {.width = 8, .depth = 2, .decoder_depth = 1, .num_heads = 2};
  config.fusion.width = config.fmri.width = 24;
  config.bottleneck_dim = 10;
  config.voxels = 50;
  return config;
}

std::map<std::string, torch::Tensor> random_recordings(const Step& step) {
  std::map<std::string, torch::Tensor> inputs;
  for (const InputSpec& spec : step.inputs)
    inputs[spec.name] = spec.name == kSampleMask ? torch::ones(spec.sizes) : torch::randn(spec.sizes);
  return inputs;
}

torch::Tensor loss_of(const Step& step, torch::nn::Module& model, const std::map<std::string, torch::Tensor>& inputs,
                      torch::ScalarType dtype = torch::kFloat) {
  StepInputs named;
  for (const auto& [name, tensor] : inputs) named.set(name, tensor.to(dtype));
  return step.loss(model, named);
}

TEST(FmriAutoencoder, EveryPartLearns) {
  torch::manual_seed(1);
  const Step step = fmri_autoencoder_step(small_autoencoder(), 3);
  const auto model = step.model();
  loss_of(step, *model, random_recordings(step)).backward();
  for (const auto& entry : model->named_parameters()) {
    ASSERT_TRUE(entry.value().grad().defined()) << entry.key();
    EXPECT_GT(entry.value().grad().abs().max().item<double>(), 0) << entry.key();
  }
}

TEST(FmriAutoencoder, AWeightOfZeroLeavesThePartOut) {
  torch::manual_seed(2);
  FmriAutoencoderConfig config = small_autoencoder();
  config.loss = {.fmri = 1, .video = 0, .audio = 0, .text = 0, .agreement = 0};
  const Step step = fmri_autoencoder_step(config, 2);
  const auto model = step.model();
  loss_of(step, *model, random_recordings(step)).backward();
  for (const auto& entry : model->named_parameters()) {
    const bool unused = entry.key().starts_with("fmri_encoder") || entry.key().starts_with("video_decoder") ||
                        entry.key().starts_with("audio_decoder") || entry.key().starts_with("text_decoder");
    EXPECT_EQ(entry.value().grad().defined(), !unused) << entry.key();
  }
}

TEST(FmriAutoencoder, PartsAddUpByTheirWeights) {
  torch::manual_seed(3);
  FmriAutoencoderConfig config = small_autoencoder();
  const auto part = [&](double FmriLossConfig::*member, double weight) {
    FmriAutoencoderConfig one = config;
    one.loss = {0, 0, 0, 0, 0};
    one.loss.*member = weight;
    return one;
  };
  const Step whole = fmri_autoencoder_step(config, 2);
  const auto model = whole.model();
  const auto inputs = random_recordings(whole);
  const auto loss_with = [&](const FmriAutoencoderConfig& other) {
    const Step step = fmri_autoencoder_step(other, 2);
    const auto twin = step.model();
    const torch::NoGradGuard no_grad;
    auto expected = twin->named_parameters();
    for (const auto& entry : model->named_parameters()) expected[entry.key()].copy_(entry.value());
    return loss_of(step, *twin, inputs).item<double>();
  };
  double sum = 0;
  for (const auto member : {&FmriLossConfig::fmri, &FmriLossConfig::video, &FmriLossConfig::audio,
                            &FmriLossConfig::text, &FmriLossConfig::agreement}) {
    const double one = loss_with(part(member, config.loss.*member));
    EXPECT_GT(one, 0);
    EXPECT_NEAR(loss_with(part(member, 2 * config.loss.*member)), 2 * one, 1e-5 * one);
    sum += one;
  }
  EXPECT_NEAR(loss_of(whole, *model, inputs).item<double>(), sum, 1e-5 * sum);
}

TEST(FmriAutoencoder, TheLossIsFloat32InBfloat16) {
  const Step step = fmri_autoencoder_step(small_autoencoder(), 2);
  const auto model = step.model();
  model->to(torch::kBFloat16);
  EXPECT_EQ(loss_of(step, *model, random_recordings(step), torch::kBFloat16).scalar_type(), torch::kFloat);
}

Evaluation evaluation_of(const Step& step, torch::nn::Module& model,
                         const std::map<std::string, torch::Tensor>& inputs) {
  StepInputs named;
  for (const auto& [name, tensor] : inputs) named.set(name, tensor);
  return step.evaluation(model, named);
}

std::map<std::string, torch::Tensor> rows(const std::map<std::string, torch::Tensor>& inputs, int64_t first,
                                          int64_t count) {
  std::map<std::string, torch::Tensor> part;
  for (const auto& [name, tensor] : inputs) part[name] = tensor.narrow(0, first, count).clone();
  return part;
}

// The padding of an evaluation's last batch changes nothing, for any values.
TEST(FmriAutoencoder, RowsThatDoNotCountDoNot) {
  torch::manual_seed(4);
  const Step step = fmri_autoencoder_step(small_autoencoder(), 5);
  const auto model = step.model();
  auto inputs = random_recordings(step);
  inputs[kSampleMask].narrow(0, 3, 2).zero_();
  const Evaluation five = evaluation_of(step, *model, inputs);
  const Evaluation three = evaluation_of(step, *model, rows(inputs, 0, 3));
  EXPECT_NEAR(five.loss.item<double>(), three.loss.item<double>(), 1e-5);
  EXPECT_NEAR(loss_of(step, *model, inputs).item<double>(), three.loss.item<double>(), 1e-5);
  ASSERT_EQ(five.sums.size(), three.sums.size());
  for (size_t i = 0; i < five.sums.size(); ++i)
    EXPECT_TRUE(torch::allclose(five.sums[i].second, three.sums[i].second, 1e-4, 1e-4)) << five.sums[i].first;
}

// Sums over several micro batches come to the same as Pearson's formula over all samples.
TEST(FmriAutoencoder, TheCorrelationIsPearsonsOfEachVoxel) {
  torch::manual_seed(5);
  FmriAutoencoderConfig config = small_autoencoder();
  const Step step = fmri_autoencoder_step(config, 24);
  const auto model = step.model();
  model->eval();
  auto inputs = random_recordings(step);
  inputs["voxels"] = inputs["voxels"] * 3 + 2;
  inputs["voxels"].narrow(1, 0, 5).fill_(7);  // 5 of 50 voxels do not vary: 0 each
  const torch::Tensor predicted = static_cast<model::FmriAutoencoderImpl&>(*model)
                                      .forward(inputs["frames"], inputs["mel"], inputs["words"], inputs["voxels"])
                                      .predicted.to(torch::kDouble);
  const torch::Tensor measured = inputs["voxels"].to(torch::kDouble);
  const torch::Tensor x = predicted - predicted.mean(0), y = measured - measured.mean(0);
  const torch::Tensor r = (x * y).sum(0) / ((x * x).sum(0) * (y * y).sum(0)).sqrt();
  const double wanted = r.narrow(0, 5, 45).sum().item<double>() / 50;

  std::map<std::string, torch::Tensor> sums;
  for (int64_t first : {0, 8, 16}) {
    const Evaluation part = evaluation_of(step, *model, rows(inputs, first, 8));
    for (const auto& [name, sum] : part.sums)
      sums[name] = sums.contains(name) ? sums[name] + sum.to(torch::kDouble) : sum.to(torch::kDouble);
  }
  const double fmri_loss = (predicted - measured).square().mean().item<double>();
  std::map<std::string, double> metrics;
  std::vector<std::string> names;
  for (const auto& [name, value] : step.metrics(sums)) metrics[name] = value, names.push_back(name);
  EXPECT_NEAR(metrics.at("correlation"), wanted, 1e-4);
  EXPECT_NE(wanted, 0);
  EXPECT_NEAR(metrics.at("fmri_loss"), fmri_loss, 1e-4 * fmri_loss);
  EXPECT_EQ(names, (std::vector<std::string>{"correlation", "fmri_loss", "video_loss", "audio_loss", "text_loss",
                                             "agreement_loss"}));
}

TEST(FmriAutoencoder, WithoutAPredictionThereIsNoCorrelation) {
  FmriAutoencoderConfig config = small_autoencoder();
  config.loss = {.fmri = 0, .video = 0, .audio = 0, .text = 1, .agreement = 0};
  const Step step = fmri_autoencoder_step(config, 2);
  const auto model = step.model();
  std::map<std::string, torch::Tensor> sums;
  for (const auto& [name, sum] : evaluation_of(step, *model, random_recordings(step)).sums)
    sums[name] = sum.to(torch::kDouble);
  const auto metrics = step.metrics(sums);
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].first, "text_loss");
}

TEST(FmriAutoencoder, RefusesWhatDoesNotDivide) {
  const auto refusal = [](const auto& change) {
    FmriAutoencoderConfig config = small_autoencoder();
    change(config);
    return refusal_of([&] { fmri_autoencoder_step(config, 1); });
  };
  EXPECT_THAT(refusal([](auto& c) { c.video_patch = 5; }), HasSubstr("model.video.patch is 5; it must divide"));
  EXPECT_THAT(refusal([](auto& c) { c.audio_patch = 3; }), HasSubstr("model.audio.patch is 3"));
  EXPECT_THAT(refusal([](auto& c) { c.text.num_heads = 3; }), HasSubstr("model.text.num_heads is 3"));
  EXPECT_THAT(refusal([](auto& c) { c.voxels = 0; }), HasSubstr("model.voxels is 0"));
  EXPECT_THAT(refusal([](auto& c) { c.loss = {0, 0, 0, 0, 0}; }), HasSubstr("one of them must be above 0"));
}

TEST(FmriAutoencoder, TheExampleHasItsParametersAndNoneIsLarge) {
  const Job job = read_job(PLIMSOLL_SOURCE_DIR "/examples/fmri-autoencoder/job.yaml");
  TrainingOptions options = options_of(job);
  const Trace trace = record_step(step_of(job, 1), options);
  int64_t parameters = 0, largest = 0;
  for (const NamedView& entry : trace.state) {
    if (trace.buffers[entry.view.buffer].role != Role::parameter) continue;
    parameters += entry.view.elements();
    largest = std::max(largest, entry.view.elements());
  }
  EXPECT_EQ(parameters, 8'499'653'234);
  EXPECT_LT(static_cast<double>(largest), 0.02 * static_cast<double>(parameters));
}

}  // namespace
}  // namespace plimsoll
