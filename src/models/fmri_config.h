// Checks the configuration of the fMRI autoencoder, for the job file and for the model. No libtorch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "models/config_problem.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

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

}  // namespace plimsoll::model
