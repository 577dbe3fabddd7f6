// Small JSON files from outside: descriptions of models, indexes of shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace plimsoll {

/// The JSON object in `path`. Throws UserError (failure) that names the file: missing or unreadable, larger than `most`
/// bytes, not JSON, nested deeper than any such file is (16), a key twice in one object, or no object.
nlohmann::json read_json_file(const std::filesystem::path& path, int64_t most);

/// The same where NaN, Infinity and -Infinity may stand for numbers, as Python writes them, though JSON has no such
/// words: each becomes {"__float__": "NaN"}, which is how newer versions of transformers write it.
nlohmann::json read_python_json_file(const std::filesystem::path& path, int64_t most);

/// The same from text; `name` stands for the file in messages.
nlohmann::json parse_json_object(std::string_view text, const std::string& name);

}  // namespace plimsoll
