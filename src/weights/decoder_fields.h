// Declares the settings of a decoder by the names of their keys, to compare two configurations and to copy them.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/models.h"

namespace plimsoll::weights {

/// Calls visit(name, place) for every setting except dropout; place(config) is a reference to it.
template <typename Visit>
void for_each_field(Visit&& visit) {
#define PLIMSOLL_FIELD(name) \
  visit(                     \
      #name, [](auto& config) -> auto& { return config.name; })
  PLIMSOLL_FIELD(vocab_size);
  PLIMSOLL_FIELD(hidden_size);
  PLIMSOLL_FIELD(num_layers);
  PLIMSOLL_FIELD(num_heads);
  PLIMSOLL_FIELD(num_kv_heads);
  PLIMSOLL_FIELD(head_dim);
  PLIMSOLL_FIELD(intermediate_size);
  PLIMSOLL_FIELD(norm);
  PLIMSOLL_FIELD(positions);
  PLIMSOLL_FIELD(max_positions);
  PLIMSOLL_FIELD(activation);
  PLIMSOLL_FIELD(tie_embeddings);
  PLIMSOLL_FIELD(attention_bias);
  PLIMSOLL_FIELD(qkv_bias);
  PLIMSOLL_FIELD(mlp_bias);
  PLIMSOLL_FIELD(qk_norm);
  PLIMSOLL_FIELD(post_norms);
  PLIMSOLL_FIELD(embedding_scale);
  PLIMSOLL_FIELD(query_scale);
  PLIMSOLL_FIELD(attention_softcap);
  PLIMSOLL_FIELD(logit_softcap);
  PLIMSOLL_FIELD(sliding_window);
  PLIMSOLL_FIELD(sliding_window_every);
  PLIMSOLL_FIELD(norm_eps);
  PLIMSOLL_FIELD(rope_theta);
  PLIMSOLL_FIELD(rope_scaling.factor);
  PLIMSOLL_FIELD(rope_scaling.low_frequency_factor);
  PLIMSOLL_FIELD(rope_scaling.high_frequency_factor);
  PLIMSOLL_FIELD(rope_scaling.original_length);
#undef PLIMSOLL_FIELD
}

/// Returns the canonical form of a configuration, of several that describe the same model. Zeros that mean a default
/// size become that size; settings without effect become their defaults. Sizes must divide as in check_decoder.
DecoderConfig canonical(DecoderConfig config);

/// Returns "hidden_size: 64, not 32" for every setting in which two canonical configurations differ.
std::vector<std::string> differences(const DecoderConfig& of, const DecoderConfig& than);

}  // namespace plimsoll::weights
