// Declares a reader of the keys of a config.json that checks the allowed values of each, the check for keys that no
// table lists (weights/config_facts.h), and the reading of rotary positions.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/file_kind.h"
#include "plimsoll/bytes.h"
#include "plimsoll/models.h"

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

/// Returns the row of a key for a family ("llama", "clip_vision_model"), or nullptr.
const FileFact* config_fact(std::string_view family, std::string_view key);

/// Returns the keys of a file of this family that no row has and that do not look as if they changed the model. Throws
/// UserError for a key that is refused, and for one that no row has but whose name is of attention, positions, norms,
/// scales, quantization or layers. Values that state no difference are accepted: null, false, "", [] and {}, and the
/// values that the row of a refused key allows.
std::vector<std::string> check_keys(const ConfigReader& read, std::string_view family);

/// Returns why a field is refused, for the end of a message.
std::string reason_to_refuse(const FileFact& fact);

/// Returns a note for the keys that check_keys() returned for the file `name`.
std::string unused_keys_note(const std::string& name, const std::vector<std::string>& keys);

/// Sets rope_theta and rope_scaling from `rope_parameters` (transformers 5) or `rope_scaling` and the keys next to
/// them. `usual_length`: max_position_embeddings of a file without that key. Throws UserError for a kind other than
/// default and llama3, for a key that the kind does not have, and for two keys that contradict each other.
void read_rope(const ConfigReader& read, int64_t default_length, DecoderConfig& config);

}  // namespace plimsoll::weights
