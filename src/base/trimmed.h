// Trims lines of files from outside.
#pragma once

#include <string_view>

namespace plimsoll {

/// Returns `text` without blanks and tabs at its ends, and without the carriage return of Windows line ends.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace plimsoll
