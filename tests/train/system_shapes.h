// Declares training steps with the shapes of five systems that ran out of memory, at small size. They are wide, deep,
// long or branched in the same places, and have megabytes of activations, about which planning decides.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/attention/attention.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/training_runs.h"
#include "train/system_blocks.h"

namespace plimsoll::testing {

struct SystemShape {
  std::string name;
  Step step;
  std::function<Batch()> batch;  ///< random inputs of a micro batch
};

/// A model of frames -> patches -> a vision transformer a frame -> means over time -> projector -> language model.
struct VideoLanguage : torch::nn::Module {
  static constexpr int64_t kPatch = 8, kVision = 96, kText = 128, kFramesPooled = 4;

  VideoLanguage(int64_t patches_of_frame, int64_t vocab) {
    patches = register_module(
        "patches", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kVision, kPatch).stride(kPatch).bias(false)));
    positions = register_parameter("positions", torch::randn({patches_of_frame, kVision}) * 0.02);
    vision = register_module("vision", torch::nn::ModuleList());
    for (int i = 0; i < 2; ++i) vision->push_back(std::make_shared<VisionBlock>(kVision, 4, 0.0));
    projector = register_module("projector", torch::nn::Sequential(torch::nn::Linear(kVision, kText), torch::nn::GELU(),
                                                                   torch::nn::Linear(kText, kText)));
    language = register_module("language", std::make_shared<LanguageModel>(kText, 4, vocab, 0.0));
  }

  torch::Tensor loss(const torch::Tensor& frames, const torch::Tensor& tokens, const torch::Tensor& targets) {
    const int64_t batch = frames.size(0), count = frames.size(1);
    torch::Tensor x = patches(frames.flatten(0, 1)).flatten(2).transpose(1, 2) + positions;
    for (const auto& block : *vision) x = block->as<VisionBlock>()->forward(x);
    x = x.view({batch, count / kFramesPooled, kFramesPooled, x.size(1), kVision}).mean(2).flatten(1, 2);
    const torch::Tensor seen = projector->forward(x);
    x = language->forward(torch::cat({seen, language->words(tokens).to(seen.scalar_type())}, 1));
    return language->loss(x.narrow(1, seen.size(1), tokens.size(1)), targets);
  }

  torch::nn::Conv2d patches{nullptr};
  torch::Tensor positions;
  torch::nn::ModuleList vision{nullptr};
  torch::nn::Sequential projector{nullptr};
  std::shared_ptr<LanguageModel> language;
};

inline SystemShape video_language() {
  static constexpr int64_t kFrames = 12, kSize = 64, kTokens = 48, kVocab = 1024;
  SystemShape shape{"VideoLanguage", {}, [] {
                      Batch batch = token_batch(1, kTokens, kVocab);
                      batch["frames"] = torch::randn({1, kFrames, 3, kSize, kSize});
                      return batch;
                    }};
  static constexpr int64_t kSide = kSize / VideoLanguage::kPatch;
  shape.step.model = [] { return std::make_shared<VideoLanguage>(kSide * kSide, kVocab); };
  shape.step.inputs = {{"frames", {1, kFrames, 3, kSize, kSize}, torch::kFloat32},
                       {"tokens", {1, kTokens}, torch::kInt64},
                       {"targets", {1, kTokens}, torch::kInt64}};
  shape.step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return static_cast<VideoLanguage&>(m).loss(in["frames"], in["tokens"], in["targets"]);
  };
  return shape;
}

/// A model of video, audio and text -> one code -> voxels, and voxels -> the code.
struct BrainAutoencoder : torch::nn::Module {
  static constexpr int64_t kFeatures = 96, kCode = 256;

  BrainAutoencoder(int64_t mels, int64_t word_size, int64_t voxels, double dropout) {
    video = register_module("video", torch::nn::ModuleList());
    video->push_back(std::make_shared<ConvolutionStage>(3, 24));
    video->push_back(std::make_shared<ConvolutionStage>(24, 48));
    video->push_back(std::make_shared<ConvolutionStage>(48, kFeatures));
    audio = register_module("audio", torch::nn::ModuleList());
    audio->push_back(std::make_shared<AudioStage>(mels, kFeatures));
    audio->push_back(std::make_shared<AudioStage>(kFeatures, kFeatures));
    text = register_module("text", torch::nn::Sequential(torch::nn::Linear(word_size, kFeatures), torch::nn::GELU(),
                                                         torch::nn::Linear(kFeatures, kFeatures)));
    bottleneck = register_module("bottleneck", torch::nn::Linear(3 * kFeatures, kCode));
    decoder = register_module("decoder", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) decoder->push_back(std::make_shared<ResidualMlp>(kCode, dropout));
    head = register_module("head", torch::nn::Linear(kCode, voxels));
    back = register_module("back", torch::nn::Linear(voxels, kCode));
  }

  torch::Tensor loss(const torch::Tensor& frames, const torch::Tensor& mel, const torch::Tensor& words,
                     const torch::Tensor& voxels) {
    torch::Tensor x = frames.flatten(0, 1), y = mel;
    for (const auto& stage : *video) x = stage->as<ConvolutionStage>()->forward(x);
    x = x.mean({2, 3}).view({frames.size(0), frames.size(1), kFeatures}).mean(1);
    for (const auto& stage : *audio) y = stage->as<AudioStage>()->forward(y);
    y = y.mean(2);
    const torch::Tensor z = text->forward(words).mean(1);
    const torch::Tensor code = bottleneck(torch::cat({x, y, z}, 1));
    torch::Tensor hidden = code;
    for (const auto& block : *decoder) hidden = block->as<ResidualMlp>()->forward(hidden);
    // The parts of the loss are float32 for any precision.
    const torch::Tensor predicted = head(hidden).to(torch::kFloat32), target = voxels.to(torch::kFloat32);
    const torch::Tensor cosine = torch::cosine_similarity(predicted, target, 1);
    const torch::Tensor cycle = torch::mse_loss(back(voxels).to(torch::kFloat32), code.to(torch::kFloat32));
    return torch::mse_loss(predicted, target) + 0.5 * (1 - cosine).mean() + 0.1 * cycle;
  }

  torch::nn::ModuleList video{nullptr}, audio{nullptr}, decoder{nullptr};
  torch::nn::Sequential text{nullptr};
  torch::nn::Linear bottleneck{nullptr}, head{nullptr}, back{nullptr};
};

inline SystemShape brain_autoencoder(double dropout) {
  static constexpr int64_t kBatch = 4, kFrames = 6, kMels = 64, kVoxels = 1536, kWords = 128;
  SystemShape shape;
  shape.name = "BrainAutoencoder";
  shape.step.model = [=] { return std::make_shared<BrainAutoencoder>(kMels, kWords, kVoxels, dropout); };
  shape.step.inputs = {{"frames", {kBatch, kFrames, 3, 32, 32}, torch::kFloat32},
                       {"mel", {kBatch, kMels, 128}, torch::kFloat32},
                       {"words", {kBatch, kFrames, kWords}, torch::kFloat32},
                       {"voxels", {kBatch, kVoxels}, torch::kFloat32}};
  shape.step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return static_cast<BrainAutoencoder&>(m).loss(in["frames"], in["mel"], in["words"], in["voxels"]);
  };
  shape.batch = [inputs = shape.step.inputs] {
    Batch batch;
    for (const InputSpec& input : inputs) batch[input.name] = torch::randn(input.sizes);
    return batch;
  };
  return shape;
}

/// A model of points in their own order -> state space blocks at full and at half length -> a class.
struct GestureClassifier : torch::nn::Module {
  GestureClassifier(int64_t features, int64_t hidden, int64_t classes, double dropout) {
    embedding = register_module("embedding", torch::nn::Linear(features, hidden));
    scales = register_module("scales", torch::nn::ModuleList());
    for (int scale = 0; scale < 2; ++scale) {
      torch::nn::ModuleList blocks;
      for (int i = 0; i < 2 - scale; ++i) blocks->push_back(std::make_shared<StateSpaceBlock>(hidden, dropout));
      scales->push_back(blocks);
    }
    head = register_module("head", torch::nn::Linear(hidden, classes));
  }

  torch::Tensor loss(const torch::Tensor& points, const torch::Tensor& order, const torch::Tensor& gesture) {
    torch::Tensor x = embedding(points);
    x = x.gather(1, order.unsqueeze(-1).expand_as(x));
    for (size_t scale = 0; scale < scales->size(); ++scale) {
      if (scale > 0) x = x.view({x.size(0), x.size(1) / 2, 2, x.size(2)}).mean(2);
      for (const auto& block : *scales->ptr<torch::nn::ModuleListImpl>(scale))
        x = block->as<StateSpaceBlock>()->forward(x);
    }
    return torch::cross_entropy_loss(head(x.mean(1)).to(torch::kFloat32), gesture);
  }

  torch::nn::Linear embedding{nullptr}, head{nullptr};
  torch::nn::ModuleList scales{nullptr};
};

inline SystemShape gesture_classifier(double dropout) {
  static constexpr int64_t kBatch = 1, kLength = 256, kFeatures = 6, kClasses = 32;
  SystemShape shape{"GestureClassifier", {}, [] {
                      return Batch{{"points", torch::randn({kBatch, kLength, kFeatures})},
                                   {"order", torch::rand({kBatch, kLength}).argsort(int64_t{1})},
                                   {"gesture", torch::randint(kClasses, {kBatch}, torch::kLong)}};
                    }};
  shape.step.model = [=] { return std::make_shared<GestureClassifier>(kFeatures, 64, kClasses, dropout); };
  shape.step.inputs = {{"points", {kBatch, kLength, kFeatures}, torch::kFloat32},
                       {"order", {kBatch, kLength}, torch::kInt64},
                       {"gesture", {kBatch}, torch::kInt64}};
  shape.step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return static_cast<GestureClassifier&>(m).loss(in["points"], in["order"], in["gesture"]);
  };
  return shape;
}

inline SystemShape small_language_model() {
  static constexpr int64_t kBatch = 2, kTokens = 192, kVocab = 1024;
  DecoderConfig config;
  config.vocab_size = kVocab;
  config.hidden_size = 128;
  config.num_layers = 6;
  config.num_heads = 4;
  return {"SmallLanguageModel", decoder_step(config, kBatch, kTokens),
          [] { return token_batch(kBatch, kTokens, kVocab); }};
}

/// A model of image and prompt -> a mask of the image's size; the prompt has a separate loss.
struct PromptSegmentation : torch::nn::Module {
  static constexpr int64_t kHidden = 96;

  PromptSegmentation(int64_t vocab, double dropout) {
    stages = register_module("stages", torch::nn::ModuleList());
    stages->push_back(std::make_shared<HalvingStage>(3, 24));
    stages->push_back(std::make_shared<HalvingStage>(24, 48));
    stages->push_back(std::make_shared<HalvingStage>(48, kHidden));
    vision = register_module("vision", torch::nn::ModuleList());
    for (int i = 0; i < 2; ++i) vision->push_back(std::make_shared<VisionBlock>(kHidden, 4, dropout));
    prompt = register_module("prompt", std::make_shared<LanguageModel>(kHidden, 2, vocab, dropout));
    query = register_module("query", torch::nn::Linear(kHidden, kHidden));
    key_value = register_module("key_value", torch::nn::Linear(kHidden, 2 * kHidden));
    mask = register_module("mask", torch::nn::ModuleList());
    mask->push_back(std::make_shared<DoublingStage>(kHidden, 48));
    mask->push_back(std::make_shared<DoublingStage>(48, 24));
    last = register_module("last", torch::nn::Conv2d(torch::nn::Conv2dOptions(24, 1, 3).padding(1)));
  }

  torch::Tensor loss(const torch::Tensor& image, const torch::Tensor& tokens, const torch::Tensor& targets,
                     const torch::Tensor& truth) {
    torch::Tensor x = image;
    for (const auto& stage : *stages) x = stage->as<HalvingStage>()->forward(x);
    const int64_t batch = x.size(0), height = x.size(2), width = x.size(3);
    x = x.flatten(2).transpose(1, 2);
    for (const auto& block : *vision) x = block->as<VisionBlock>()->forward(x);
    const torch::Tensor text = prompt->forward(prompt->words(tokens));
    // Every position of the image attends to the prompt.
    const auto split = [&](const torch::Tensor& y) {
      return y.view({batch, y.size(1), 4, kHidden / 4}).transpose(1, 2);
    };
    const auto parts = key_value(text).chunk(2, -1);
    const torch::Tensor told =
        ops::attention(split(query(x)), split(parts[0].contiguous()), split(parts[1].contiguous()), /*causal=*/false);
    x = x + told.transpose(1, 2).reshape({batch, height * width, kHidden});
    x = x.transpose(1, 2).reshape({batch, kHidden, height, width});
    for (const auto& stage : *mask) x = stage->as<DoublingStage>()->forward(x);
    x = last(torch::upsample_bilinear2d(x, {image.size(2), image.size(3)}, /*align_corners=*/false));
    const torch::Tensor logits = x.to(torch::kFloat32), inside = logits.sigmoid();
    const torch::Tensor overlap = (inside * truth).sum({1, 2, 3}), area = (inside + truth).sum({1, 2, 3});
    const torch::Tensor dice = 1 - ((2 * overlap + 1) / (area + 1)).mean();
    return torch::binary_cross_entropy_with_logits(logits, truth) + dice + 0.5 * prompt->loss(text, targets);
  }

  torch::nn::ModuleList stages{nullptr}, vision{nullptr}, mask{nullptr};
  std::shared_ptr<LanguageModel> prompt;
  torch::nn::Linear query{nullptr}, key_value{nullptr};
  torch::nn::Conv2d last{nullptr};
};

inline SystemShape prompt_segmentation(double dropout) {
  static constexpr int64_t kBatch = 2, kSize = 128, kTokens = 32, kVocab = 512;
  SystemShape shape{"PromptSegmentation", {}, [] {
                      Batch batch = token_batch(kBatch, kTokens, kVocab);
                      batch["image"] = torch::randn({kBatch, 3, kSize, kSize});
                      batch["truth"] = (torch::rand({kBatch, 1, kSize, kSize}) > 0.7).to(torch::kFloat32);
                      return batch;
                    }};
  shape.step.model = [=] { return std::make_shared<PromptSegmentation>(kVocab, dropout); };
  shape.step.inputs = {{"image", {kBatch, 3, kSize, kSize}, torch::kFloat32},
                       {"tokens", {kBatch, kTokens}, torch::kInt64},
                       {"targets", {kBatch, kTokens}, torch::kInt64},
                       {"truth", {kBatch, 1, kSize, kSize}, torch::kFloat32}};
  shape.step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return static_cast<PromptSegmentation&>(m).loss(in["image"], in["tokens"], in["targets"], in["truth"]);
  };
  return shape;
}

/// `dropout` is used in the autoencoder, the classifier and the segmentation.
inline std::vector<SystemShape> system_shapes(double dropout = 0.1) {
  return {video_language(), brain_autoencoder(dropout), gesture_classifier(dropout), small_language_model(),
          prompt_segmentation(dropout)};
}

}  // namespace plimsoll::testing
