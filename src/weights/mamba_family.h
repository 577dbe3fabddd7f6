// Declares Mamba2 language models in the format of Hugging Face's transformers (model_type mamba2).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plimsoll/models.h"
#include "weights/tensor_names.h"

namespace plimsoll::weights {

/// Returns the settings in the config.json of `path` (the file, or its folder). Throws UserError that names the file,
/// and the key at fault if there is one. Causes: another family, a setting that Plimsoll's layers do not have, or heads
/// and groups that do not divide. A size may also be missing, not a whole number or out of bounds. `notes` gets what
/// the file has and the model does not use; nullptr: it is not needed.
MambaConfig read_mamba_config(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// Returns the settings in the parsed file; `name` is its name in messages.
MambaConfig mamba_config_of(const nlohmann::json& json, const std::string& name,
                            std::vector<std::string>* notes = nullptr);

/// Returns the config.json of that model, in transformers' format. `dtype`: "float32", "bfloat16", "float16".
nlohmann::json mamba_config_json_of(const MambaConfig& config, const std::string& dtype);

Layout mamba_layout_of(const MambaConfig& config);

/// Returns "hidden_size: 64, not 32" for every setting in which two models differ, except the length of chunks.
std::vector<std::string> differences(const MambaConfig& of, const MambaConfig& than);

/// Calls visit(name, place) for every setting in which a job must agree with the file; place(config) is a reference to
/// it.
template <typename Visit>
void for_each_mamba_field(Visit&& visit) {
#define PLIMSOLL_FIELD(key, name) \
  visit(                          \
      key, [](auto& config) -> auto& { return config.name; })
  PLIMSOLL_FIELD("vocab_size", vocab_size);
  PLIMSOLL_FIELD("hidden_size", hidden_size);
  PLIMSOLL_FIELD("num_layers", num_layers);
  PLIMSOLL_FIELD("state_size", state_size);
  PLIMSOLL_FIELD("expand", expand);
  PLIMSOLL_FIELD("head_dim", head_dim);
  PLIMSOLL_FIELD("num_groups", num_groups);
  PLIMSOLL_FIELD("conv_width", conv_width);
  PLIMSOLL_FIELD("conv_bias", conv_bias);
  PLIMSOLL_FIELD("projection_bias", projection_bias);
  PLIMSOLL_FIELD("time_step_limit", min_step);
  PLIMSOLL_FIELD("time_step_limit", max_step);
  PLIMSOLL_FIELD("tie_embeddings", tie_embeddings);
  PLIMSOLL_FIELD("norm_eps", norm_eps);
#undef PLIMSOLL_FIELD
}

}  // namespace plimsoll::weights
