// Checks the configuration of prompt segmentation, for the job file and for the model. No libtorch.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "models/config_problem.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

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

}  // namespace plimsoll::model
