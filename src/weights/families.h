// Declares the families of decoders whose weights are read and written in the format of Hugging Face's transformers,
// and the settings of a decoder by the names of their keys.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/models.h"

namespace plimsoll::weights {

/// Returns "llama", "mistral", "gemma2", "qwen2", "qwen3", "gpt2": `model_type` of the config.json.
const std::vector<std::string>& family_names();

/// An architecture as described in a file.
struct Architecture {
  std::string family;
  DecoderConfig config;                 ///< canonical(); without dropout, which the job sets
  std::vector<std::string> notes = {};  ///< notes on parts of the files that are not used, one a line
};

/// Returns the architecture in the config.json of `path` (the file, or its folder). Throws UserError that names the
/// file, and the key at fault if there is one. Causes: an unknown family (the message lists the known ones), or a
/// setting that Plimsoll's decoder does not have. A size may also be missing, not a whole number or out of bounds.
Architecture read_architecture(const std::filesystem::path& path);

/// Returns the architecture in the parsed file; `name` is its name in messages.
Architecture architecture_of(const nlohmann::json& json, const std::string& name);

/// Returns the family that has exactly these settings. Throws UserError (usage) if no family has them; the message
/// names the nearest families and how they differ.
Architecture family_of(const DecoderConfig& config);

/// Returns the config.json of that architecture, in transformers' format. `dtype`: "float32", "bfloat16", "float16".
/// `positions`: maximum tokens of a text in training.
nlohmann::json config_json_of(const Architecture& architecture, const std::string& dtype, int64_t positions);

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
