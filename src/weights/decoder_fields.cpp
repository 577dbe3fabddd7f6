#include "weights/decoder_fields.h"

#include <fmt/format.h>

namespace plimsoll::weights {

DecoderConfig canonical(DecoderConfig config) {
  const DecoderConfig defaults;
  const bool gated = config.activation == "swiglu" || config.activation == "geglu";
  if (config.num_kv_heads == 0) config.num_kv_heads = config.num_heads;
  if (config.head_dim == 0) config.head_dim = config.hidden_size / config.num_heads;
  if (config.intermediate_size == 0)
    config.intermediate_size = gated ? (8 * config.hidden_size / 3 + 63) / 64 * 64 : 4 * config.hidden_size;
  if (config.query_scale == 0) config.query_scale = static_cast<double>(config.head_dim);
  if (config.attention_bias) config.qkv_bias = false;
  if (config.positions == "rope") config.max_positions = defaults.max_positions;
  if (config.positions == "learned") {
    config.rope_theta = defaults.rope_theta;
    config.rope_scaling = defaults.rope_scaling;
  }
  if (config.rope_scaling.factor == 1) config.rope_scaling = defaults.rope_scaling;
  if (config.sliding_window == 0 || config.sliding_window_every > config.num_layers)
    config.sliding_window_every = config.sliding_window == 0 ? 1 : config.num_layers;
  config.dropout = defaults.dropout;
  return config;
}

std::vector<std::string> differences(const DecoderConfig& of, const DecoderConfig& than) {
  std::vector<std::string> found;
  for_each_field([&](const char* name, auto place) {
    if (place(of) != place(than)) found.push_back(fmt::format("{}: {}, not {}", name, place(of), place(than)));
  });
  return found;
}

}  // namespace plimsoll::weights
