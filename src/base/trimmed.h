// Trims text of files from outside: blanks around a line, and the byte order mark before a text.
#pragma once

#include <string_view>

namespace plimsoll {

/// Returns `text` without blanks and tabs at its ends, and without the carriage return of Windows line ends.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  ///< in UTF-8

/// Returns `text` without a byte order mark at its begin. Every reader of text calls it on the begin of its file.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace plimsoll
