// Declares the families of decoders whose weights are read and written in the format of Hugging Face's transformers:
// config.json next to safetensors files.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plimsoll/models.h"

namespace plimsoll::weights {

/// Returns "llama", "mistral", "gemma2", "qwen2", "qwen3", "gpt2": `model_type` of the config.json.
const std::vector<std::string>& family_names();

/// An architecture as described in a file.
struct Architecture {
  std::string family;
  DecoderConfig config;                 ///< canonical (decoder_fields.h); without dropout, which the job sets
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

}  // namespace plimsoll::weights
