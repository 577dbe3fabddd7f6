// Declares characters of UTF-8 text and their Unicode classes (utf8proc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

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

}  // namespace plimsoll
