// Formats numbers with three significant digits, for tables and messages.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::cli {

/// Returns "12.3 %"; "-" if `whole` is 0.
std::string percent_of(int64_t part, int64_t whole);

/// Returns "1.20 M", "12.3 k", "812".
std::string short_count(double count);

/// Returns "1.25 s", "12.3 ms", "0.5 us".
std::string short_seconds(double seconds);

}  // namespace plimsoll::cli
