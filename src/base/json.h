// Reads small JSON files from outside, such as descriptions of models and indexes of shards, and checks the types of
// their fields.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "plimsoll/error.h"

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

/// Reads fields of a JSON object from outside, and checks their types.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) refuse("a part that must be an object is none");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(without_controls(fmt::format("{}: {}", name_, what)), UserError::Kind::failure);
  }
  [[noreturn]] void refuse_value(const char* key, const std::string& what) const {
    const std::string value = at(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    refuse(fmt::format("{} is {}; {}", key, one_line(value), what));
  }

  const nlohmann::json& at(const char* key) const {
    static const nlohmann::json none;
    const auto found = json_.find(key);
    return found == json_.end() ? none : *found;
  }
  std::string text(const char* key, const char* fallback = nullptr) const {
    if (at(key).is_null() && fallback) return fallback;
    if (!at(key).is_string()) refuse_value(key, "it must be a text");
    return at(key).get<std::string>();
  }
  bool boolean(const char* key, bool fallback) const {
    if (at(key).is_null()) return fallback;
    if (!at(key).is_boolean()) refuse_value(key, "it must be true or false");
    return at(key).get<bool>();
  }
  int64_t integer(const char* key, int64_t min, int64_t max) const {
    const nlohmann::json& value = at(key);
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                                                 : value.is_number_integer() && value.get<int64_t>() <= max;
    if (!fits || value.get<int64_t>() < min)
      refuse_value(key, fmt::format("it must be a whole number from {} to {}", min, max));
    return value.get<int64_t>();
  }
  const nlohmann::json& list(const char* key, size_t max) const {
    if (!at(key).is_array() || at(key).size() > max)
      refuse_value(key, fmt::format("it must be a list of at most {}", max));
    return at(key);
  }
  const std::string& name() const { return name_; }

 private:
  const nlohmann::json& json_;
  std::string name_;
};

}  // namespace plimsoll
