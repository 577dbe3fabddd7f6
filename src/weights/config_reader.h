// Declares a reader of the keys of a config.json that checks the allowed values of each.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/bytes.h"

namespace plimsoll::weights {

/// Maximum size in bytes of a config.json that is read.
inline constexpr int64_t kMaxConfigBytes = 4 * MiB;

/// A reader that throws UserError "FILE: KEY is VALUE; WHAT" for a value that is not allowed. `null` counts as a
/// missing key.
class ConfigReader {
 public:
  /// `section`: what is put before the names of keys in messages, "rope_parameters.".
  ConfigReader(const nlohmann::json& json, std::string file, std::string section = "")
      : json_(json), file_(std::move(file)), section_(std::move(section)) {}

  const std::string& file() const { return file_; }
  std::vector<std::string> keys() const;
  bool states_nothing(const std::string& key) const;             ///< the value is null, false, "", [] or {}
  bool is(const std::string& key, std::string_view json) const;  ///< the value equals that of the JSON text
  /// Returns whether the value under `key` equals that of `other` under `other_key`.
  bool has_same(const std::string& key, const ConfigReader& other, const std::string& other_key) const;
  std::string text_of(const std::string& key) const;  ///< the value for a message: at most 60 bytes of its JSON

  bool has(const std::string& key) const;
  bool is_null(const char* key) const;  ///< the key is there and null; for keys whose default is not "none"
  /// Returns an integer from `min` to `max`. Without a `fallback` the key must be there.
  int64_t integer(const char* key, int64_t min, int64_t max, std::optional<int64_t> fallback = {}) const;
  /// Returns a finite number of at least 0 (`positive`: above 0).
  double number(const char* key, double fallback, bool positive = true) const;
  bool boolean(const char* key, bool fallback) const;
  std::string word(const char* key, const std::vector<std::string>& allowed, const std::string& fallback) const;
  /// Returns the object under `key`; an empty one if there is none.
  ConfigReader object(const char* key) const;
  /// Returns a list of `count` numbers, each finite or infinite. Infinity is written as {"__float__": "Infinity"}.
  std::vector<double> numbers(const char* key, size_t count, std::vector<double> fallback) const;
  /// Returns a list of at most `max` words.
  std::vector<std::string> words(const char* key, size_t max) const;

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;
  [[noreturn]] void refuse_whole(const std::string& what) const;

 private:
  const nlohmann::json& at(const std::string& key) const;

  const nlohmann::json& json_;
  std::string file_, section_;
};

}  // namespace plimsoll::weights
