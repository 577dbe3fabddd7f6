// Declares the parser and the formatter of byte amounts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

constexpr int64_t KiB = int64_t{1} << 10;
constexpr int64_t MiB = int64_t{1} << 20;
constexpr int64_t GiB = int64_t{1} << 30;

/// Returns the bytes that `text` states: "8GiB" (2^30), "8GB" (10^9), "512 MiB", "1.5GiB", "4096" or "4096B" (bytes).
/// Case does not count, a space before the unit is allowed, and a fraction is rounded down to whole bytes. Throws
/// UserError, with the text and what is allowed, for anything else, for negative amounts and for overflow.
int64_t parse_bytes(std::string_view text);

/// Returns `bytes` as text in binary units, always with the unit and at least three significant figures: "7.42 GiB",
/// "36.6 MiB", "512 B".
std::string format_bytes(int64_t bytes);

}  // namespace plimsoll
