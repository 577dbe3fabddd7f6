// Checks the configuration of the gesture classifier, for the job file and for the model. No libtorch.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "models/config_problem.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

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

}  // namespace plimsoll::model
