// Trains every model that reads pictures, series or recordings on constant inputs: black pictures, silence, voxels that
// do not vary. Biases begin at 0, so a blank input meets norms of rows of zeros.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll {
namespace {

using Inputs = std::map<std::string, at::Tensor>;

constexpr int64_t kBatch = 2;

struct ModelKind {
  std::string name;
  Step step;
  std::vector<std::string> inputs;  // those that data may make constant
};

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.vocab_size = 40;
  config.hidden_size = 16;
  config.num_layers = 1;
  config.num_heads = 2;
  return config;
}

/// The encoders have their default depth: the gradient of a blank input passes all of their norms.
std::vector<ModelKind> model_kinds() {
  std::vector<ModelKind> kinds;
  for (const char* encoder : {"compact", "tiny_vit"}) {
    PromptSegmentationConfig config;
    config.image_size = 32;
    config.prompt_length = 6;
    config.encoder.type = encoder;
    config.llm = small_decoder();
    kinds.push_back(
        {std::string("prompt_segmentation, ") + encoder, prompt_segmentation_step(config, kBatch), {"image"}});
  }
  FmriAutoencoderConfig fmri;
  fmri.voxels = 50;
  fmri.fmri.depth = fmri.fmri.decoder_depth = 4;
  kinds.push_back({"fmri_autoencoder", fmri_autoencoder_step(fmri, kBatch), {"frames", "mel", "words", "voxels"}});
  for (const char* share : {"false", "true"}) {
    GestureSsmConfig config;
    config.channels = 3;
    config.hidden_dim = 32;
    config.d_state = 8;
    config.head_dim = 16;
    config.share_weights = share;
    kinds.push_back(
        {std::string("gesture_ssm, shared ") + share, gesture_ssm_step(config, kBatch, /*vectors=*/20), {"vectors"}});
  }
  for (const char* norm : {"rmsnorm", "layernorm"}) {
    VideoLlmConfig config;
    config.image_size = 16;
    config.vision = {.patch = 4, .width = 16, .depth = 4, .num_heads = 2, .norm = norm, .pre_norm = true};
    config.llm = small_decoder();
    kinds.push_back({std::string("video_llm, ") + norm,
                     video_llm_step(config, /*frames=*/3, /*text_tokens=*/7, kBatch),
                     {"frames"}});
  }
  return kinds;
}

Inputs random_inputs(const Step& step) {
  Inputs inputs;
  for (const InputSpec& spec : step.inputs)
    inputs[spec.name] = spec.name == kSampleMask ? torch::ones(spec.sizes)
                        : spec.dtype == torch::kFloat
                            ? torch::randn(spec.sizes)
                            : torch::randint(spec.values, spec.sizes, torch::dtype(spec.dtype));
  if (const auto read_at = inputs.find("read_at"); read_at != inputs.end()) {
    read_at->second.zero_();
    read_at->second.select(1, 4).fill_(1);
  }
  return inputs;
}

TrainingOptions options_of(Precision precision) {
  TrainingOptions options;
  options.precision = precision;
  options.threads = 1;
  options.seed = 1;
  return options;
}

class ConstantInputs : public ::testing::TestWithParam<Precision> {
 protected:
  void plan(const Step& step) {
    step_ = step;
    planned_ = plan_step(step, options_of(GetParam()));
  }

  /// Takes two steps with `inputs`. Returns the norm of the gradients of the first.
  double two_steps(const Inputs& inputs) {
    Training training(step_, options_of(GetParam()), planned_);
    training.start();
    double norm = 0;
    for (int i = 0; i < 2; ++i) {
      const StepResult result = training.step({inputs}, 1e-3);
      EXPECT_FALSE(result.skipped);
      EXPECT_TRUE(std::isfinite(result.loss)) << result.loss;
      for (const auto& [parameter, each] : training.gradient_norms())
        EXPECT_TRUE(std::isfinite(each)) << parameter << ": " << each;
      if (i == 0) norm = result.gradient_norm;
    }
    return norm;
  }

  Step step_;
  PlannedStep planned_;
};

TEST_P(ConstantInputs, HaveGradientsAsOtherInputsHave) {
  torch::manual_seed(1);
  for (const ModelKind& kind : model_kinds()) {
    plan(kind.step);
    const Inputs random = random_inputs(kind.step);
    const double defaults = two_steps(random);
    for (const float value : {0.0F, -1.0F}) {
      Inputs all = random, half = random;
      for (const std::string& name : kind.inputs) {
        all[name] = torch::full_like(random.at(name), value);
        half[name] = random.at(name).clone();
        half[name].select(0, 0).fill_(value);
      }
      SCOPED_TRACE(kind.name + ", " + std::to_string(value));
      EXPECT_LT(two_steps(all), 100 * defaults);
      EXPECT_LT(two_steps(half), 100 * defaults);
    }
    // One input of several: silence with a video.
    for (size_t i = 0; i < kind.inputs.size() && kind.inputs.size() > 1; ++i) {
      Inputs inputs = random;
      inputs[kind.inputs[i]] = torch::zeros_like(random.at(kind.inputs[i]));
      SCOPED_TRACE(kind.name + ", " + kind.inputs[i]);
      EXPECT_LT(two_steps(inputs), 100 * defaults);
    }
  }
}

// A run that is skipped asks which gradient is not finite: the norms are those of the step's total.
TEST(GradientNorms, AreThoseOfTheLastStepByName) {
  torch::manual_seed(2);
  const ModelKind kind = model_kinds().front();
  Training training(kind.step, options_of(Precision::fp32_true));
  training.start();
  const StepResult result = training.step({random_inputs(kind.step)}, 1e-3);
  const auto norms = training.gradient_norms();
  double squares = 0;
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < norms.size(); ++i) {
    squares += norms[i].second * norms[i].second;
    place[norms[i].first] = i;
  }
  EXPECT_NEAR(std::sqrt(squares), result.gradient_norm, 1e-5 * result.gradient_norm);
  // The backward pass goes from the mask decoder to the stem.
  ASSERT_TRUE(place.contains("mask_decoder.filter_last.weight") && place.contains("encoder.stem.weight"));
  EXPECT_LT(place["mask_decoder.filter_last.weight"], place["encoder.stem.weight"]);
}

INSTANTIATE_TEST_SUITE_P(Precisions, ConstantInputs, ::testing::Values(Precision::fp32_true, Precision::bf16_mixed),
                         [](const auto& info) { return std::string(info.index == 0 ? "float32" : "bf16_mixed"); });

}  // namespace
}  // namespace plimsoll
