#include "plimsoll/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kAllowed =
    "allowed: whole bytes (4096), or a number and a unit: B, KiB, MiB, GiB, TiB, PiB (powers of 1024), KB, MB, GB, TB, "
    "PB (powers of 1000), for example 8GiB or 1.5GB";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Removes the digits at the front of `text` and returns them.
std::string_view take_digits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

/// Returns the bytes of a unit written in any case; "" is bytes.
std::optional<int64_t> bytes_of_unit(std::string_view unit) {
  std::string lower;
  for (char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 1;
  int64_t binary = 1, decimal = 1;
  for (char prefix : std::string_view("kmgtp")) {
    binary *= 1024;
    decimal *= 1000;
    if (lower == std::string{prefix} + "ib") return binary;
    if (lower == std::string{prefix} + "b") return decimal;
  }
  return std::nullopt;
}

/// Returns "; did you mean 8GiB?" for 8G and 8gig, which may mean 1000 or 1024; for a share, returns the remedy.
std::string meant_by(std::string_view text) {
  if (text.ends_with('%')) return "; a share is not taken: state the amount";
  if (text.starts_with("\xe2\x80\x9c") || text.starts_with("\xe2\x80\x98")) return "; leave out the typographic quotes";
  if (const size_t comma = text.find(','); comma != std::string_view::npos && comma > 0 && comma + 1 < text.size())
    if (std::string dotted(text); text.find(',', comma + 1) == std::string_view::npos) {
      dotted[comma] = '.';
      return fmt::format("; did you mean {}?", dotted);
    }
  std::string_view rest = text;
  const std::string_view digits = take_digits(rest);
  if (digits.empty() || digits.size() > 9 || rest.empty()) return "";
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  std::string unit;
  for (char c : rest) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char prefix : std::string_view("kmgtp")) {
    const std::string_view words[] = {"kilobytes", "megabytes", "gigabytes", "terabytes", "petabytes"};
    const std::string_view word = words[std::string_view("kmgtp").find(prefix)];
    const std::string one{prefix};
    if (unit != one && unit != one + "ig" && unit != one + "igs" && unit != one + "bytes" && unit != one + "ibytes" &&
        unit != one + "ibs" && unit != one + "bs" && unit != word && unit != word.substr(0, word.size() - 1))
      continue;
    const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(prefix)));
    return fmt::format("; did you mean {0}{1}iB or {0}{1}B?", digits, upper);
  }
  return "";
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  const auto refuse = [&](std::string_view why) -> UserError {
    return UserError(
        fmt::format("{} is not an amount of memory{}; {}{}", in_quotes(text), why, kAllowed, meant_by(text)));
  };
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  if (whole.empty()) throw refuse(!text.empty() && text.front() == '-' ? " (it is negative)" : "");
  std::string_view fraction;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    if (fraction.empty()) throw refuse("");
  }
  if (const size_t spaces = rest.find_first_not_of(' '); spaces != std::string_view::npos) rest.remove_prefix(spaces);
  const std::optional<int64_t> unit = bytes_of_unit(rest);
  if (!unit) throw refuse("");
  if (*unit == 1 && !fraction.empty())
    throw refuse(
        fmt::format(" (there are no parts of a byte; is {}GiB meant?)", text.substr(0, text.find_first_of(" bB"))));

  int64_t units = 0;
  int64_t bytes = 0;
  bool overflow = false;
  for (char digit : whole)
    overflow |= __builtin_mul_overflow(units, 10, &units) || __builtin_add_overflow(units, digit - '0', &units);
  overflow |= __builtin_mul_overflow(units, *unit, &bytes);
  // From the last digit to the first. Floors of whole numbers nest, so this is exact for any number of digits, and ten
  // times the largest unit is far from overflow.
  int64_t part = 0;
  for (size_t i = fraction.size(); i-- > 0;) part = (part + (fraction[i] - '0') * *unit) / 10;
  overflow |= __builtin_add_overflow(bytes, part, &bytes);
  if (overflow) throw refuse(" that can be counted (it is larger than 8191 PiB)");
  return bytes;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 7> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = std::abs(static_cast<double>(bytes));
  size_t unit = 0;
  // 1023.5 would be printed as 1024 of the smaller unit.
  while (unit + 1 < units.size() && amount >= (unit == 0 ? 1024.0 : 1023.5)) {
    amount /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || amount >= 100 ? 0 : amount >= 10 ? 1 : 2;
  return fmt::format("{}{:.{}f} {}", bytes < 0 ? "-" : "", amount, decimals, units[unit]);
}

}  // namespace plimsoll
