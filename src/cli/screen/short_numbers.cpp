#include "cli/screen/short_numbers.h"

#include <fmt/format.h>

#include <array>

namespace plimsoll::cli {
namespace {

// Returns three significant digits.
std::string figures(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

}  // namespace

std::string percent_of(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string short_count(double count) {
  constexpr std::array<const char*, 5> units = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  while (unit + 1 < units.size() && count >= 999.5) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0 && count == static_cast<double>(static_cast<int64_t>(count))) return fmt::format("{:.0f}", count);
  return figures(count) + units[unit];
}

std::string short_seconds(double seconds) {
  if (seconds < 0.9995e-3) return figures(seconds * 1e6) + " us";
  if (seconds < 0.9995) return figures(seconds * 1e3) + " ms";
  return figures(seconds) + " s";
}

}  // namespace plimsoll::cli
