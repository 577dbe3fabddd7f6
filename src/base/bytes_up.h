// Formats amounts of memory that users type back, such as a minimum budget.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

/// Returns the text of format_bytes, rounded up. parse_bytes reads it as `bytes` or more; if it has a unit, by at most
/// a hundredth.
std::string format_bytes_up(int64_t bytes);

}  // namespace plimsoll
