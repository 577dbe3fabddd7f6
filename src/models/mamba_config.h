// Checks the configuration of the state-space language model, for the job file and for the model. No libtorch.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "models/config_problem.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

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

}  // namespace plimsoll::model
