// The keys of a config.json, each with what is allowed there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/bytes.h"

namespace plimsoll::weights {

/// Bytes of a config.json that is read, at most.
inline constexpr int64_t kMaxConfigBytes = 4 * MiB;

/// Throws UserError "FILE: KEY is VALUE; WHAT" for what it does not allow. `null` is as good as nothing.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& json, std::string file) : json_(json), file_(std::move(file)) {}

  bool has(const char* key) const;
  bool is_null(const char* key) const;  ///< said to be nothing, where `has` is of no help: the default is something
  /// From `least` to `most`; without a `fallback` the key must be there.
  int64_t integer(const char* key, int64_t least, int64_t most, std::optional<int64_t> fallback = {}) const;
  /// Finite and at least 0 (`positive`: above 0).
  double number(const char* key, double fallback, bool positive = true) const;
  bool boolean(const char* key, bool fallback) const;
  std::string word(const char* key, const std::vector<std::string>& allowed, const std::string& fallback) const;
  /// The object under `key`; an empty one where there is none.
  ConfigReader object(const char* key) const;
  /// A list of `count` numbers, each finite or infinite; what stands for an infinite one is {"__float__": "Infinity"}.
  std::vector<double> numbers(const char* key, size_t count, std::vector<double> fallback) const;
  /// A list of words, `most` at the most.
  std::vector<std::string> words(const char* key, size_t most) const;

  [[noreturn]] void refuse(const char* key, const std::string& what) const;
  [[noreturn]] void refuse_whole(const std::string& what) const;

 private:
  const nlohmann::json& at(const char* key) const;

  const nlohmann::json& json_;
  std::string file_;
};

}  // namespace plimsoll::weights
