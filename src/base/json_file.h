// Reads small JSON files from outside: descriptions of models, indexes of shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

namespace plimsoll {

/// Returns the JSON object in `path`. Throws UserError that names the file: missing or unreadable, larger
/// than `max_bytes` bytes, not JSON, nested deeper than 16 levels, a key twice in one object, or no object. It also
/// throws if the file loses bytes meanwhile. `look` is called once with the text; nullptr: it is not.
nlohmann::json read_json_file(const std::filesystem::path& path, int64_t max_bytes,
                              const std::function<void(std::string_view text)>& look = nullptr);

/// Reads a JSON object like read_json_file(), and accepts NaN, Infinity and -Infinity as numbers. Python writes them,
/// though JSON has no such words. Each becomes {"__float__": "NaN"}, which is how newer versions of transformers write
/// it.
nlohmann::json read_python_json_file(const std::filesystem::path& path, int64_t max_bytes);

/// Parses a JSON object like read_json_file(), from text; `name` replaces the file in messages.
nlohmann::json parse_json_object(std::string_view text, const std::string& name);

}  // namespace plimsoll
