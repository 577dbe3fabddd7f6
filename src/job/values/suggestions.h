// Suggests the probable meaning of a value that a key refuses, for the end of a message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/values.h"

namespace plimsoll::job {

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

}  // namespace plimsoll::job
