// Amounts of memory that people type back: a least budget.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

/// As format_bytes, rounded up: parse_bytes reads it as `bytes` or a little more, a hundredth at the most where it has
/// a unit.
std::string format_bytes_up(int64_t bytes);

}  // namespace plimsoll
