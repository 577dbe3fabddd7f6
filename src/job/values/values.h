// Reads one value of a job file as the type of its key.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/document.h"

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

}  // namespace plimsoll::job
