// Declares values of keys and their ranges.
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
#include "models/config_checks.h"

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

// The ranges that several keys share, and proposes numbers if one number must divide another.

constexpr NumberRange kPositive{.min = 0, .min_open = true};
constexpr NumberRange kPositiveOrNone{.min = 0, .none = true};
constexpr NumberRange kBelowOne{.min = 0, .max = 1, .max_open = true};
constexpr NumberRange kBelowOneOrNone{.min = 0, .max = 1, .max_open = true, .none = true};
constexpr NumberRange kSmall{.min = 0, .min_open = true, .max = 1, .max_open = true};

constexpr IntegerRange kWidth{1, int64_t{1} << 16};     ///< features of a token or channels of a map
constexpr IntegerRange kDepth{0, 1024};                 ///< blocks of a part that may be left out
constexpr IntegerRange kHeads{1, model::kMaxHeads};     ///< attention heads
constexpr IntegerRange kPixels{1, int64_t{1} << 12};    ///< height and width of a frame or of a patch
constexpr NumberRange kWeight{.min = 0, .none = true};  ///< factor of one term of a loss

/// Upper bound of estimates of bytes and tokens in floating point: 2^62, so that int64_t can count them.
constexpr double kCountable = 4.6e18;

/// Returns the nearest divisors of `of` below and above `number` for which `fits(divisor)` holds: at most two. Takes
/// time in proportion to `of`.
template <typename Fits>
std::vector<int64_t> near_divisors(int64_t number, int64_t of, Fits&& fits) {
  std::vector<int64_t> result;
  const auto good = [&](int64_t divisor) { return of % divisor == 0 && fits(divisor); };
  for (int64_t below = (number < of ? number : of + 1) - 1; below >= 1; --below)
    if (good(below)) {
      result.push_back(below);
      break;
    }
  for (int64_t above = number + 1; above <= of; ++above)
    if (good(above)) {
      result.push_back(above);
      break;
    }
  return result;
}

/// Returns " (for example 4 or 8)", or "" if there is no number to propose.
std::string for_example(const std::vector<int64_t>& numbers);

}  // namespace plimsoll::job
