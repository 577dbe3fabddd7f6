#include "models/fmri_autoencoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "models/config_checks.h"
#include "models/layers.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
namespace {

// Projections into the residual stream start smaller the deeper it is (GPT-2, section 2.3).
BlockOptions options_of(int64_t width, int64_t num_heads, int64_t depth, double dropout, double eps) {
  return {.width = width,
          .num_heads = num_heads,
          .dropout = dropout,
          .norm_eps = eps,
          .residual_deviation = kInitialDeviation / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(1, depth)))};
}

/// Cuts frames [B, F, 3, size, size] into tokens [B, F x patches, 3 x patch x patch].
at::Tensor patches_of(const at::Tensor& frames, int64_t patch) {
  const int64_t batch = frames.size(0), count = frames.size(1), side = frames.size(3) / patch;
  return frames.view({batch, count, kFrameChannels, side, patch, side, patch})
      .permute({0, 1, 3, 5, 2, 4, 6})
      .reshape({batch, count * side * side, kFrameChannels * patch * patch});
}

/// Returns [B] in float32 for any precision: squares of small differences need more than 16 bits.
at::Tensor mean_squares(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor difference = (got.to(at::kFloat) - wanted.to(at::kFloat)).flatten(1);
  return (difference * difference).mean(1);
}

}  // namespace

ModalityEncoderImpl::ModalityEncoderImpl(int64_t tokens, int64_t features, const ModalityConfig& config, double dropout,
                                         double eps) {
  embed_ = register_module("embed", Linear(features, config.width, /*bias=*/true, kInitialDeviation));
  positions_ = register_parameter("positions", torch::empty({tokens, config.width}));
  // Positions start as large as embedded features of deviation 1. With smaller ones, the first norm would leave nothing
  // of a token's position.
  torch::nn::init::normal_(positions_, 0.0, kInitialDeviation * std::sqrt(static_cast<double>(features)));
  blocks_ = register_module("blocks", blocks<EncoderBlock>(config.depth, options_of(config.width, config.num_heads,
                                                                                    config.depth, dropout, eps)));
  norm_ = register_module("norm", Norm("rmsnorm", config.width, eps));
}

at::Tensor ModalityEncoderImpl::forward(const at::Tensor& tokens) {
  return norm_(through<EncoderBlockImpl>(blocks_, embed_(tokens) + positions_)).mean(1);
}

ModalityDecoderImpl::ModalityDecoderImpl(int64_t code, int64_t tokens, int64_t features, const ModalityConfig& config,
                                         double dropout, double eps) {
  spread_ = register_module("spread", Linear(code, config.width, /*bias=*/true, kInitialDeviation));
  positions_ = register_parameter("positions", torch::empty({tokens, config.width}));
  torch::nn::init::normal_(positions_, 0.0, kInitialDeviation);
  blocks_ = register_module(
      "blocks", blocks<EncoderBlock>(config.decoder_depth,
                                     options_of(config.width, config.num_heads, config.decoder_depth, dropout, eps)));
  norm_ = register_module("norm", Norm("rmsnorm", config.width, eps));
  head_ = register_module("head", Linear(config.width, features, /*bias=*/true, kInitialDeviation));
}

at::Tensor ModalityDecoderImpl::forward(const at::Tensor& code) {
  const at::Tensor x = spread_(code).unsqueeze(1) + positions_;
  return head_(norm_(through<EncoderBlockImpl>(blocks_, x)));
}

ResidualStackImpl::ResidualStackImpl(int64_t in, int64_t out, int64_t depth, const BlockOptions& options,
                                     bool bias_of_last) {
  first_ = register_module("first", Linear(in, options.width, /*bias=*/true, kInitialDeviation));
  blocks_ = register_module("blocks", blocks<ResidualBlock>(depth, options));
  norm_ = register_module("norm", Norm("rmsnorm", options.width, options.norm_eps));
  last_ = register_module("last", Linear(options.width, out, bias_of_last, kInitialDeviation));
}

at::Tensor ResidualStackImpl::forward(const at::Tensor& x) {
  return last_(norm_(through<ResidualBlockImpl>(blocks_, first_(x))));
}

FmriAutoencoderImpl::FmriAutoencoderImpl(const FmriAutoencoderConfig& config) : config_(config) {
  if (const auto problem = problem_of(config)) throw UserError(problem->message);
  const double p = config.dropout, eps = config.norm_eps;
  const int64_t code = config.bottleneck_dim;
  const int64_t video = video_tokens(config), pixels = kFrameChannels * config.video_patch * config.video_patch;
  const int64_t audio = audio_tokens(config), bands = config.audio_patch * config.audio_mels;
  const int64_t text = config.text_tokens, features = config.text_features;
  const auto stack = [&](const ResidualConfig& part, int64_t in, int64_t out, int64_t depth, bool bias) {
    return ResidualStack(in, out, depth, options_of(part.width, 1, depth, p, eps), bias);
  };
  video_encoder_ = register_module("video_encoder", ModalityEncoder(video, pixels, config.video, p, eps));
  audio_encoder_ = register_module("audio_encoder", ModalityEncoder(audio, bands, config.audio, p, eps));
  text_encoder_ = register_module("text_encoder", ModalityEncoder(text, features, config.text, p, eps));
  fusion_ = register_module("fusion", stack(config.fusion, config.video.width + config.audio.width + config.text.width,
                                            code, config.fusion.depth, false));
  fmri_decoder_ =
      register_module("fmri_decoder", stack(config.fmri, code, config.voxels, config.fmri.decoder_depth, true));
  fmri_encoder_ = register_module("fmri_encoder", stack(config.fmri, config.voxels, code, config.fmri.depth, false));
  video_decoder_ = register_module("video_decoder", ModalityDecoder(code, video, pixels, config.video, p, eps));
  audio_decoder_ = register_module("audio_decoder", ModalityDecoder(code, audio, bands, config.audio, p, eps));
  text_decoder_ = register_module("text_decoder", ModalityDecoder(code, text, features, config.text, p, eps));
}

FmriOutputs FmriAutoencoderImpl::forward(const at::Tensor& frames, const at::Tensor& mel, const at::Tensor& words,
                                         const at::Tensor& voxels) {
  const FmriLossConfig& weights = config_.loss;
  FmriOutputs outputs;
  const auto add = [&](const char* name, double weight, const at::Tensor& part) {
    outputs.parts.emplace_back(name, part);
    outputs.loss = outputs.loss.defined() ? outputs.loss + weight * part : weight * part;
  };
  const at::Tensor video = patches_of(frames, config_.video_patch);
  const at::Tensor audio = mel.view({mel.size(0), audio_tokens(config_), config_.audio_patch * config_.audio_mels});

  at::Tensor code, code_of_voxels;
  if (weights.fmri > 0 || weights.agreement > 0)
    code = fusion_(at::cat({video_encoder_(video), audio_encoder_(audio), text_encoder_(words)}, 1));
  if (weights.fmri > 0) {
    outputs.predicted = fmri_decoder_(code).to(at::kFloat);
    add("fmri", weights.fmri, mean_squares(outputs.predicted, voxels));
  }
  if (weights.video > 0 || weights.audio > 0 || weights.text > 0 || weights.agreement > 0)
    code_of_voxels = fmri_encoder_(voxels);
  if (weights.video > 0) add("video", weights.video, mean_squares(video_decoder_(code_of_voxels), video));
  if (weights.audio > 0) add("audio", weights.audio, mean_squares(audio_decoder_(code_of_voxels), audio));
  if (weights.text > 0) add("text", weights.text, mean_squares(text_decoder_(code_of_voxels), words));
  if (weights.agreement > 0) add("agreement", weights.agreement, mean_squares(code, code_of_voxels));
  return outputs;
}

}  // namespace plimsoll::model

namespace plimsoll {
namespace {

// Sums over the counted samples, one for each voxel: x is predicted, y is measured. kSamples is the number of samples.
constexpr const char *kSamples = "samples", *kX = "x", *kY = "y", *kXX = "xx", *kYY = "yy", *kXY = "xy";

// A sum of squared deviations below this share of the sum of squares is the rounding error of a constant.
constexpr double kConstant = 1e-6;

model::FmriOutputs outputs_of(torch::nn::Module& module, const StepInputs& inputs) {
  return static_cast<model::FmriAutoencoderImpl&>(module).forward(inputs["frames"], inputs["mel"], inputs["words"],
                                                                  inputs["voxels"]);
}

Evaluation evaluation_of(torch::nn::Module& module, const StepInputs& inputs) {
  const model::FmriOutputs outputs = outputs_of(module, inputs);
  const at::Tensor counted = inputs[kSampleMask].to(at::kFloat);
  Evaluation evaluation{model::counted_mean(outputs.loss, counted), {{kSamples, counted.sum()}}};
  for (const auto& [name, part] : outputs.parts) evaluation.sums.emplace_back(name, (part * counted).sum());
  if (!outputs.predicted.defined()) return evaluation;
  const at::Tensor x = outputs.predicted, y = inputs["voxels"].to(at::kFloat), rows = counted.unsqueeze(1);
  const at::Tensor counted_x = x * rows, counted_y = y * rows;
  evaluation.sums.emplace_back(kX, counted_x.sum(0));
  evaluation.sums.emplace_back(kY, counted_y.sum(0));
  evaluation.sums.emplace_back(kXX, (counted_x * x).sum(0));
  evaluation.sums.emplace_back(kYY, (counted_y * y).sum(0));
  evaluation.sums.emplace_back(kXY, (counted_x * y).sum(0));
  return evaluation;
}

/// Returns Pearson's correlation of each voxel over the samples, averaged over the voxels. A constant voxel counts as
/// 0.
double mean_correlation(const std::map<std::string, at::Tensor>& sums) {
  const double n = sums.at(kSamples).item().toDouble();
  const auto deviations = [&](const char* square, const char* sum) {
    const at::Tensor left = sums.at(square) - sums.at(sum) * sums.at(sum) / n;
    return at::where(left > kConstant * sums.at(square), left, at::zeros_like(left));
  };
  const at::Tensor xx = deviations(kXX, kX), yy = deviations(kYY, kY);
  const at::Tensor xy = sums.at(kXY) - sums.at(kX) * sums.at(kY) / n;
  const at::Tensor scale = (xx * yy).sqrt();
  return at::where(scale > 0, xy / scale, at::zeros_like(scale)).mean().item().toDouble();
}

std::vector<std::pair<std::string, double>> metrics_of(const std::map<std::string, at::Tensor>& sums) {
  std::vector<std::pair<std::string, double>> metrics;
  if (sums.contains(kXY)) metrics.emplace_back("correlation", mean_correlation(sums));
  const double n = sums.at(kSamples).item().toDouble();
  for (const char* part : {"fmri", "video", "audio", "text", "agreement"})
    if (const auto sum = sums.find(part); sum != sums.end())
      metrics.emplace_back(std::string(part) + "_loss", sum->second.item().toDouble() / n);
  return metrics;
}

}  // namespace

Step fmri_autoencoder_step(const FmriAutoencoderConfig& config, int64_t micro_batch_size) {
  if (const auto problem = model::problem_of(config)) throw UserError(problem->message);
  const int64_t batch = micro_batch_size;
  Step step;
  step.model = [config] { return std::make_shared<model::FmriAutoencoderImpl>(config); };
  step.inputs = {{"frames",
                  {batch, config.video_frames, model::kFrameChannels, config.video_size, config.video_size},
                  c10::kFloat},
                 {"mel", {batch, config.audio_frames, config.audio_mels}, c10::kFloat},
                 {"words", {batch, config.text_tokens, config.text_features}, c10::kFloat},
                 {"voxels", {batch, config.voxels}, c10::kFloat},
                 {kSampleMask, {batch}, c10::kFloat}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    return model::counted_mean(outputs_of(module, inputs).loss, inputs[kSampleMask].to(at::kFloat));
  };
  step.evaluation = evaluation_of;
  step.metrics = metrics_of;
  return step;
}

}  // namespace plimsoll
