// Checks the configurations of the models, for the job file and for the models, and declares the upper bounds of
// their sizes. No libtorch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "plimsoll/models.h"

namespace plimsoll::model {

/// The error of a model's configuration that the job file and the model report.
struct ConfigProblem {
  const char* key;      ///< key of the job file
  std::string message;  ///< the error and the allowed values
};

// The upper bounds of a model's sizes, for job files and for model files of other programs. The sizes multiply: with
// these bounds the bytes of parameters, gradients and optimizer state stay below 2^60.

constexpr int64_t kMaxLayers = int64_t{1} << 12;       ///< layers of a language model
constexpr int64_t kMaxHeads = int64_t{1} << 12;        ///< attention heads of a layer, and groups of a Mamba-2 layer
constexpr int64_t kMaxWidth = int64_t{1} << 18;        ///< hidden_size, head_dim, num_heads x head_dim, a LoRA rank
constexpr int64_t kMaxFeedForward = int64_t{1} << 20;  ///< intermediate_size
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;   ///< vocab_size, in tokens
constexpr int64_t kMaxSequence = int64_t{1} << 20;     ///< tokens or vectors of a sample, of a window or of a chunk

/// Returns the first error of the configuration, if any.
inline std::optional<ConfigProblem> problem_of(const FmriAutoencoderConfig& config) {
  const auto must_divide = [](const char* key, int64_t part, const char* of, int64_t whole) {
    std::optional<ConfigProblem> problem;
    if (part < 1 || whole % part != 0)
      problem = {key, fmt::format("{} is {}; it must divide {} {}", key, part, of, whole)};
    return problem;
  };
  for (const auto& [key, number] : {std::pair{"model.bottleneck_dim", config.bottleneck_dim},
                                    {"model.voxels", config.voxels},
                                    {"model.video.frames", config.video_frames},
                                    {"model.video.size", config.video_size},
                                    {"model.audio.frames", config.audio_frames},
                                    {"model.audio.mels", config.audio_mels},
                                    {"model.text.tokens", config.text_tokens},
                                    {"model.text.features", config.text_features},
                                    {"model.video.width", config.video.width},
                                    {"model.audio.width", config.audio.width},
                                    {"model.text.width", config.text.width},
                                    {"model.fusion.width", config.fusion.width},
                                    {"model.fmri.width", config.fmri.width}})
    if (number < 1) return ConfigProblem{key, fmt::format("{} is {}; it must be at least 1", key, number)};
  for (const auto& [key, part, of, whole] :
       {std::tuple{"model.video.patch", config.video_patch, "model.video.size", config.video_size},
        {"model.audio.patch", config.audio_patch, "model.audio.frames", config.audio_frames},
        {"model.video.num_heads", config.video.num_heads, "model.video.width", config.video.width},
        {"model.audio.num_heads", config.audio.num_heads, "model.audio.width", config.audio.width},
        {"model.text.num_heads", config.text.num_heads, "model.text.width", config.text.width}})
    if (auto problem = must_divide(key, part, of, whole)) return problem;
  const FmriLossConfig& loss = config.loss;
  if (std::max({loss.fmri, loss.video, loss.audio, loss.text, loss.agreement}) <= 0)
    return ConfigProblem{"model.loss.fmri", "every part of model.loss is 0; one of them must be above 0"};
  return std::nullopt;
}

/// Returns a sample's number of tokens of one modality.
inline int64_t video_tokens(const FmriAutoencoderConfig& config) {
  const int64_t side = config.video_size / config.video_patch;
  return config.video_frames * side * side;
}
inline int64_t audio_tokens(const FmriAutoencoderConfig& config) {
  return config.audio_frames / config.audio_patch;
}

/// Returns the first error of the configuration for sequences of `vectors` vectors, if any.
inline std::optional<ConfigProblem> problem_of(const GestureSsmConfig& config, int64_t vectors) {
  for (const auto& [key, number] : {std::pair{"model.channels", config.channels},
                                    {"model.num_classes", config.num_classes},
                                    {"model.hidden_dim", config.hidden_dim},
                                    {"model.num_layers", config.num_layers},
                                    {"model.d_state", config.d_state},
                                    {"model.expand", config.expand},
                                    {"model.head_dim", config.head_dim},
                                    {"model.chunk_size", config.chunk_size},
                                    {"data.length", vectors}})
    if (number < 1) return ConfigProblem{key, fmt::format("{} is {}; it must be at least 1", key, number)};
  if (config.conv_width < 1 || config.conv_width > 4)
    return ConfigProblem{"model.conv_width",
                         fmt::format("model.conv_width is {}; it must be from 1 to 4", config.conv_width)};
  if (config.share_weights != "false" && config.share_weights != "true" && config.share_weights != "bidirectional")
    return ConfigProblem{
        "model.share_weights",
        fmt::format("model.share_weights is '{}'; allowed: false, true, bidirectional", config.share_weights)};
  const int64_t width = config.expand * config.hidden_dim;
  if (width % config.head_dim != 0)
    return ConfigProblem{"model.head_dim",
                         fmt::format("model.head_dim is {}; it must divide model.expand x model.hidden_dim, {}",
                                     config.head_dim, width)};
  const auto stages = static_cast<int64_t>(config.pooling_scales.size()) + 1;
  if (stages > config.num_layers)
    return ConfigProblem{
        "model.pooling_scales",
        fmt::format("model.pooling_scales makes {} scales; model.num_layers is {}, and every scale has "
                    "at least one layer",
                    stages, config.num_layers)};
  int64_t tokens = vectors;
  for (int64_t factor : config.pooling_scales) {
    if (factor < 2 || factor > tokens)
      return ConfigProblem{"model.pooling_scales",
                           fmt::format("model.pooling_scales has {}; {} tokens are there to take the mean of, so it "
                                       "must be from 2 to {}",
                                       factor, tokens, tokens)};
    tokens = (tokens + factor - 1) / factor;
  }
  return std::nullopt;
}

constexpr int64_t kMaxConvTaps = 4;  ///< widest convolution of the kernels of ops/scan/causal_conv1d.h, in taps

inline int64_t scan_width_of(const MambaConfig& config) {
  return config.expand * config.hidden_size;
}
inline int64_t heads_of(const MambaConfig& config) {
  return scan_width_of(config) / config.head_dim;
}

/// Returns the first error of the configuration, if any.
inline std::optional<ConfigProblem> problem_of(const MambaConfig& config) {
  for (const auto& [key, number] : {std::pair{"model.hidden_size", config.hidden_size},
                                    {"model.num_layers", config.num_layers},
                                    {"model.state_size", config.state_size},
                                    {"model.expand", config.expand},
                                    {"model.head_dim", config.head_dim},
                                    {"model.num_groups", config.num_groups},
                                    {"model.conv_width", config.conv_width},
                                    {"model.chunk_size", config.chunk_size}})
    if (number < 1) return ConfigProblem{key, fmt::format("{} is {}; it must be at least 1", key, number)};
  if (config.conv_width > kMaxConvTaps)
    return ConfigProblem{"model.conv_width",
                         fmt::format("model.conv_width is {}; it must be at most {}", config.conv_width, kMaxConvTaps)};
  if (scan_width_of(config) % config.head_dim != 0)
    return ConfigProblem{"model.head_dim",
                         fmt::format("model.head_dim is {}; it must divide model.expand {} x model.hidden_size {} = {}",
                                     config.head_dim, config.expand, config.hidden_size, scan_width_of(config))};
  if (heads_of(config) % config.num_groups != 0)
    return ConfigProblem{"model.num_groups",
                         fmt::format("model.num_groups is {}; it must divide the {} heads (model.expand x "
                                     "model.hidden_size / model.head_dim)",
                                     config.num_groups, heads_of(config))};
  if (!(config.min_step >= 0) || !(config.max_step > config.min_step))
    return ConfigProblem{"model.time_step_limit",
                         fmt::format("model.time_step_limit is [{}, {}]; it must rise from 0 or more", config.min_step,
                                     config.max_step)};
  return std::nullopt;
}

/// Side of the square of pixels that one token of the encoder's result covers.
constexpr int64_t kFeatureStride = 16;

/// Returns the tokens along a side of the encoder's result.
inline int64_t feature_side(const PromptSegmentationConfig& config) {
  return config.image_size / kFeatureStride;
}

/// Returns the side of the square that image_tokens form.
inline int64_t image_token_side(const PromptSegmentationConfig& config) {
  return std::llround(std::sqrt(static_cast<double>(config.image_tokens)));
}

/// Returns the first error of the configuration, if any. The language model has its own check.
inline std::optional<ConfigProblem> problem_of(const PromptSegmentationConfig& config) {
  using Problem = std::optional<ConfigProblem>;
  const auto must_divide = [](const char* key, int64_t part, const std::string& of, int64_t whole) -> Problem {
    if (part >= 1 && whole % part == 0) return std::nullopt;
    return ConfigProblem{key, fmt::format("{} has {}, which must divide {} {}", key, part, of, whole)};
  };
  const auto at_least_one = [](const char* key, int64_t number) -> Problem {
    if (number >= 1) return std::nullopt;
    return ConfigProblem{key, fmt::format("{} has {}; it must be at least 1", key, number)};
  };
  if (config.image_size < kFeatureStride || config.image_size % kFeatureStride != 0)
    return ConfigProblem{"model.image_size", fmt::format("model.image_size is {}; it must be a multiple of {}",
                                                         config.image_size, kFeatureStride)};
  for (const auto& [key, number] : {std::pair{"model.channels", config.channels},
                                    {"model.prompt_length", config.prompt_length},
                                    {"model.encoder.expansion", config.encoder.expansion},
                                    {"model.decoder.depth", config.decoder.depth},
                                    {"model.decoder.intermediate_size", config.decoder.intermediate_size}})
    if (auto problem = at_least_one(key, number)) return problem;
  const ImageEncoderConfig& encoder = config.encoder;
  for (size_t i = 0; i < 4; ++i) {
    if (auto problem = at_least_one("model.encoder.widths", encoder.widths[i])) return problem;
    if (auto problem = at_least_one("model.encoder.depths", encoder.depths[i])) return problem;
    if (i == 0) continue;
    if (auto problem = at_least_one("model.encoder.windows", encoder.windows[i - 1])) return problem;
    if (auto problem =
            must_divide("model.encoder.num_heads", encoder.num_heads[i - 1], "the stage's width", encoder.widths[i]))
      return problem;
  }
  if (encoder.widths[0] % 2 != 0)
    return ConfigProblem{"model.encoder.widths",
                         fmt::format("model.encoder.widths begins with {}, which must be even: the stem begins "
                                     "with half of it",
                                     encoder.widths[0])};
  const MaskDecoderConfig& decoder = config.decoder;
  if (decoder.width < 8 || decoder.width % 8 != 0)
    return ConfigProblem{"model.decoder.width",
                         fmt::format("model.decoder.width is {}; it must be a multiple of 8", decoder.width)};
  // Cross-attention has half the width.
  if (auto problem =
          must_divide("model.decoder.num_heads", decoder.num_heads, "half of model.decoder.width,", decoder.width / 2))
    return problem;
  const int64_t tokens = config.image_tokens, side = image_token_side(config), features = feature_side(config);
  if (tokens < 0 || (tokens > 0 && (side * side != tokens || features % side != 0)))
    return ConfigProblem{
        "model.image_tokens",
        fmt::format("model.image_tokens is {}; it must be 0, or the square of a number that divides image_size / {} = "
                    "{} (for example {})",
                    tokens, kFeatureStride, features, features * features)};
  const SegmentationLossConfig& loss = config.loss;
  if (std::max(loss.bce, loss.dice) <= 0)
    return ConfigProblem{"model.loss.bce",
                         "model.loss.bce and model.loss.dice are 0: nothing would learn masks; one of them must "
                         "be above 0"};
  return std::nullopt;
}

/// Returns the cells along a side of the grid over which a frame's patches are averaged; 0 if tokens_per_frame is no
/// square.
inline int64_t grid_of(const VideoLlmConfig& config) {
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(config.tokens_per_frame))));
  return side * side == config.tokens_per_frame ? side : 0;
}

/// Returns the first error of the vision part, if any. The language model has the check of every decoder.
inline std::optional<ConfigProblem> problem_of(const VideoLlmConfig& config) {
  for (const auto& [key, number] : {std::pair{"model.image_size", config.image_size},
                                    {"model.tokens_per_frame", config.tokens_per_frame},
                                    {"model.vision.patch", config.vision.patch},
                                    {"model.vision.width", config.vision.width},
                                    {"model.vision.num_heads", config.vision.num_heads}})
    if (number < 1) return ConfigProblem{key, fmt::format("{} is {}; it must be at least 1", key, number)};
  const VisionConfig& vision = config.vision;
  if (config.image_size < vision.patch || (!vision.cropped && config.image_size % vision.patch != 0))
    return ConfigProblem{"model.vision.patch",
                         fmt::format("model.vision.patch is {}; it must divide model.image_size {}",
                                     config.vision.patch, config.image_size)};
  if (config.vision.width % config.vision.num_heads != 0)
    return ConfigProblem{"model.vision.num_heads",
                         fmt::format("model.vision.num_heads is {}; it must divide model.vision.width {}",
                                     config.vision.num_heads, config.vision.width)};
  for (size_t i = 0; i < vision.image_std.size(); ++i)
    if (!(vision.image_std[i] > 0))
      return ConfigProblem{"model.vision.image_std", "model.vision.image_std has a number that is not above 0"};
  const int64_t side = config.image_size / config.vision.patch;
  if (const int64_t grid = grid_of(config); grid == 0 || side % grid != 0) {
    std::string allowed;
    for (int64_t cells = 1; cells <= side; ++cells)
      if (side % cells == 0) allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", cells * cells);
    return ConfigProblem{"model.tokens_per_frame",
                         fmt::format("model.tokens_per_frame is {}; a frame of {} x {} patches can be averaged to {}",
                                     config.tokens_per_frame, side, side, allowed)};
  }
  return std::nullopt;
}

}  // namespace plimsoll::model
