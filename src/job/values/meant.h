// What was probably meant by a value that a key does not take, for the end of a message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/values.h"

namespace plimsoll::job {

/// A number as people write it: "5%" is 0.05, "0,001" 0.001, "1,000" and "1_000" 1000, "10k" 10000, "1e3" 1000.
/// Nothing where `text` is none.
std::optional<double> number_meant(std::string_view text);

/// "; did you mean 'true'?" for y, 1 and enabled; the same for 'false'. "" where it is none of them.
std::string boolean_advice(const Value& value);

/// "; did you mean 'bfloat16'?" for what others call a number format (bf16, fp16, half, int8), where that is allowed;
/// "" where it is none.
std::string type_advice(std::string_view text, const std::vector<std::string>& allowed);

/// "; did you mean 'bf16-mixed'?": the allowed word that other programs call `value`, or the nearest one. "" where
/// nothing is near.
std::string word_advice(const Value& value, const std::vector<std::string>& allowed);

}  // namespace plimsoll::job
