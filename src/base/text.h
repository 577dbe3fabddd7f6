// Declares text for users and from files: quoted names, widths on a terminal, trimmed lines, Unicode classes,
// rounded amounts of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Returns `text` on one line: characters that without_controls() replaces become '?', and a text of more than 60 bytes
/// is cut (between UTF-8 characters) and ends in "...".
std::string one_line(std::string_view text);

/// Returns one_line() of `text` between single quotes.
std::string in_quotes(std::string_view text);

/// Returns the first 12 of `names`, each through one_line(), separated by ", "; ", ..." replaces the rest.
std::string few_names(const std::vector<std::string>& names);

/// Returns the columns of UTF-8 text, by utf8proc: combining marks have none, CJK and emoji two, most characters one. A
/// byte that is not UTF-8 counts one. Grapheme clusters are not supported.
size_t display_width(std::string_view text);

/// Returns the longest prefix of `text` that takes at most `columns`, never cut inside a character.
std::string_view fit_width(std::string_view text, size_t columns);

/// Treatment of line breaks: replaced like other control characters, or kept.
enum class LineBreaks : uint8_t { replaced, kept };

/// Returns `text` with '?' for each character that acts on a terminal or reorders a line instead of being shown: C0 and
/// C1 controls, line and paragraph separators (U+2028, U+2029) and bidirectional marks (U+061C, U+200E, U+200F,
/// U+202A to U+202E, U+2066 to U+2069). A C1 control counts as UTF-8 and as a byte alone.
std::string without_controls(std::string_view text, LineBreaks breaks = LineBreaks::replaced);

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

/// A character of UTF-8 text and its number of bytes. first_character() returns U+FFFD and 1 byte if `text` does not
/// begin with valid UTF-8; `text` is not empty.
struct Character {
  int32_t code;
  size_t bytes;
  bool valid;
};
Character first_character(std::string_view text);

void append_character(int32_t code, std::string& text);

/// Returns the number of bytes before the first byte that is not part of valid UTF-8.
size_t valid_utf8_prefix(std::string_view text);

/// Returns `text` with U+FFFD for each byte that is not part of valid UTF-8.
std::string valid_utf8(std::string_view text);

bool is_white_space(int32_t code);     ///< Unicode's White_Space
bool is_punctuation(int32_t code);     ///< general categories P*, and printable ASCII except letters, digits and space
bool is_mark(int32_t code);            ///< nonspacing: Mn
bool is_number(int32_t code);          ///< N*
bool is_control(int32_t code);         ///< Cc, Cf, Co
bool is_word_character(int32_t code);  ///< a letter, mark, digit or connector: \w in patterns

/// Returns `text` with each character in lower case, independent of its neighbors.
std::string lower_case(std::string_view text);

/// Returns `text` in a normalization form: "NFC", "NFD", "NFKC", "NFKD". Valid UTF-8 in and out.
std::string normal_form(std::string_view text, std::string_view form);

/// Returns the text of format_bytes, rounded up. parse_bytes reads it as `bytes` or more; if it has a unit, by at most
/// a hundredth.
std::string format_bytes_up(int64_t bytes);

}  // namespace plimsoll
