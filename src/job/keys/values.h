// Reads one value of a job file as the type of its key, and suggests the probable meaning of a value that a key
// refuses.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/keys/document.h"

namespace plimsoll::job {

/// A value, its key ("optimizer.betas") and the text that contains both.
struct Value {
  const Node* node;
  std::string key;
  const Source* source;

  /// Throws UserError "job.yaml:9: precision is 'half'; allowed: 32-true, ..." about this value, followed by `advice`.
  [[noreturn]] void refuse(std::string_view allowed, std::string_view advice = {}) const;
  /// Throws UserError "job.yaml:9: " + key + " " + `what`.
  [[noreturn]] void refuse_since(std::string_view what) const;
  /// Returns a value with the same key and another node: an item of a list.
  Value with(const Node* item) const { return {item, key, source}; }
  /// Returns true for a scalar that is exactly `word`, ignoring case; an explicit null (null, ~) is "none".
  bool is(std::string_view word) const;
};

/// A range of whole numbers from `min` to `max`, both included.
struct IntegerRange {
  int64_t min;
  int64_t max;
  bool none = false;         ///< true: 0 means none, and may be written so too
  std::string text() const;  ///< returns "integer from 1 to 4096", "integer from 0 to 10 or none"
};

/// A range of finite numbers between two bounds, each included unless it is open.
struct NumberRange {
  double min = 0;
  bool min_open = false;
  double max = std::numeric_limits<double>::infinity();
  bool max_open = false;
  bool none = false;         ///< true: 0 means none, and may be written so too
  std::string text() const;  ///< returns "number > 0", "number in [0, 1)", "number >= 0 or none"
};

/// Returns words with `separator` between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator);

/// Returns the value of read_boolean(), or nullopt if the value is not a boolean.
std::optional<bool> boolean_in(const Value& value);

/// Read a value. All readers throw UserError, through Value::refuse, if the value is not valid. `also` names words that
/// the caller has handled ("auto"); it is added to the message.
int64_t read_integer(const Value& value, const IntegerRange& range, std::string_view also = {});
double read_number(const Value& value, const NumberRange& range);
/// Reads true, yes, on and false, no, off, ignoring case, as YAML 1.1 and Python do.
bool read_boolean(const Value& value);
std::string read_word(const Value& value, const std::vector<std::string>& allowed);
/// Reads text without a zero byte, which no path can contain; `allowed` describes the valid values in a message.
std::string read_text(const Value& value, std::string_view allowed);

/// Parses an informal number: "5%" is 0.05, "0,001" 0.001, "1,000" and "1_000" 1000, "10k" 10000, "1e3" 1000. Returns
/// nullopt if `text` is not a number.
std::optional<double> parse_informal_number(std::string_view text);

/// Returns "; did you mean 'true'?" for y, 1 and enabled, and correspondingly for 'false'. Returns "" for other values.
std::string suggest_boolean(const Value& value);

/// Returns "; did you mean 'bfloat16'?" for another program's name of a number format (bf16, fp16, half, int8), if that
/// format is allowed; otherwise "".
std::string suggest_dtype(std::string_view text, const std::vector<std::string>& allowed);

/// Returns "; did you mean 'bf16-mixed'?": the allowed word that means another program's `value`, or the nearest one.
/// Returns "" if none is near.
std::string suggest_word(const Value& value, const std::vector<std::string>& allowed);

/// Returns `text` with its ASCII letters in lower case.
inline std::string ascii_lower_case(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

}  // namespace plimsoll::job
