// The families of decoders whose weights are read and written as Hugging Face's transformers keeps them: config.json
// beside safetensors files.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plimsoll/models.h"

namespace plimsoll::weights {

/// "llama", "mistral", "gemma2", "qwen2", "qwen3", "gpt2": `model_type` of the config.json.
const std::vector<std::string>& family_names();

/// An architecture as a file says it.
struct Architecture {
  std::string family;
  DecoderConfig config;  ///< canonical (decoder_fields.h); without dropout, which is the job's
};

/// What the config.json of `path` (the file, or the folder that it lies in) says. Throws UserError that names the file,
/// and the key where one is at fault: a family that is unknown (with those that are known), a setting that Plimsoll's
/// decoder does not have, a size that is missing, not a whole number or out of bounds.
Architecture read_architecture(const std::filesystem::path& path);

/// The same from what stands in the file; `name` stands for it in messages.
Architecture architecture_of(const nlohmann::json& json, const std::string& name);

/// The family that has just these settings. Throws UserError (usage) where none has; it names those that come nearest
/// and what they would do otherwise.
Architecture family_of(const DecoderConfig& config);

/// The config.json of that architecture, as transformers reads it. `dtype`: "float32", "bfloat16", "float16".
/// `positions`: tokens that the model was trained on at a time.
nlohmann::json config_json_of(const Architecture& architecture, const std::string& dtype, int64_t positions);

}  // namespace plimsoll::weights
