// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

constexpr int64_t KiB = int64_t{1} << 10;
constexpr int64_t MiB = int64_t{1} << 20;
constexpr int64_t GiB = int64_t{1} << 30;

/// Reads "8GiB" (2^30), "8GB" (10^9), "512 MiB", "1.5GiB", "4096" (bytes) or "4096B" and means what is written; upper
/// and lower case are the same, a space before the unit is allowed, a fraction is rounded down to whole bytes. Throws
/// UserError (naming the text and what is allowed) for anything else, negative amounts and overflow.
int64_t parse_bytes(std::string_view text);

/// "7.42 GiB", "36.6 MiB", "512 B": binary units with three significant figures or more, the unit always said.
std::string format_bytes(int64_t bytes);

}  // namespace plimsoll
