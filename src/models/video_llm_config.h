// Checks the configuration of the video language model, for the job file and for the model. No libtorch.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "models/config_problem.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

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
