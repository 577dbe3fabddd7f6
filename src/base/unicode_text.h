// Characters of UTF-8 text and their classes, as Unicode has them (utf8proc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

/// The character that `text` begins with and the bytes it takes; U+FFFD and 1 where it begins with no valid UTF-8.
/// `text` is not empty.
struct Character {
  int32_t code;
  size_t bytes;
  bool valid;
};
Character first_character(std::string_view text);

void append_character(int32_t code, std::string& text);

/// Each byte that is no part of valid UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);

bool is_white_space(int32_t code);     ///< Unicode's White_Space
bool is_punctuation(int32_t code);     ///< general categories P*, and all that ASCII has
bool is_mark(int32_t code);            ///< nonspacing: Mn
bool is_number(int32_t code);          ///< N*
bool is_control(int32_t code);         ///< Cc, Cf, Co
bool is_word_character(int32_t code);  ///< a letter, mark, digit or connector: what \w is in patterns

/// Each character by itself in lower case.
std::string lower_case(std::string_view text);

/// A normalisation form: "NFC", "NFD", "NFKC", "NFKD". Valid UTF-8 in and out.
std::string normal_form(std::string_view text, std::string_view form);

}  // namespace plimsoll
