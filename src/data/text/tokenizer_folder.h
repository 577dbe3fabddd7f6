// Declares what the files next to a tokenizer.json say of it: tokenizer_config.json, generation_config.json,
// config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace plimsoll {

/// The end of a text as a file names it: by its content or by its id.
struct NamedEnd {
  std::string place;                   ///< file and key, for messages
  std::optional<std::string> content;  ///< "<eos>"
  int64_t id = -1;                     ///< without a content
};

/// Returns the end of a text: `eos_token` of tokenizer_config.json or of special_tokens_map.json, or else the (first)
/// `eos_token_id` of generation_config.json or config.json; nullopt if no file in the folder names one. Throws
/// UserError for a file that cannot be read, and for a key that is neither.
std::optional<NamedEnd> named_end_in(const std::filesystem::path& folder);

/// Throws UserError (failure) if tokenizer_config.json in the folder says something else than the tokenizer.json
/// `tokenizer`: added tokens that it lacks, another prefix space or case, special tokens that are not to be found.
void check_tokenizer_config(const std::filesystem::path& folder, const nlohmann::json& tokenizer);

}  // namespace plimsoll
