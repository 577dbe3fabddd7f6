#include "base/unicode_text.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int32_t kReplacement = 0xfffd;

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

struct Free {
  void operator()(utf8proc_uint8_t* made) const { std::free(made); }  // NOLINT: utf8proc takes it from malloc
};

}  // namespace

Character first_character(std::string_view text) {
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t bytes = utf8proc_iterate(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (bytes < 1) return {kReplacement, 1, false};
  return {code, static_cast<size_t>(bytes), true};
}

void append_character(int32_t code, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(code, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t valid = 0;
  while (valid < text.size()) {
    if (static_cast<unsigned char>(text[valid]) < 0x80) {
      ++valid;
      continue;
    }
    const Character next = first_character(text.substr(valid));
    if (!next.valid) break;
    valid += next.bytes;
  }
  return valid;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Character first = first_character(text);
    if (first.valid)
      valid += text.substr(0, first.bytes);
    else
      append_character(kReplacement, valid);
    text.remove_prefix(first.bytes);
  }
  return valid;
}

bool is_white_space(int32_t code) {
  return (code >= 0x9 && code <= 0xd) || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
         code == 0x3000;
}

bool is_punctuation(int32_t code) {
  if (code < 0x80)
    return code > 0x20 && code < 0x7f && !(code >= '0' && code <= '9') &&
           !((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(int32_t code) {
  return utf8proc_category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_number(int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_control(int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_word_character(int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool mark = category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
  return letter || mark || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d ||
         // Letters in circles and squares are alphabetic, but their category is not a letter.
         (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  while (!text.empty()) {
    const Character first = first_character(text);
    append_character(first.code == 0x130 ? 'i' : utf8proc_tolower(first.code), lower);
    if (first.code == 0x130) append_character(0x307, lower);  // the only letter whose lower case is two characters
    text.remove_prefix(first.bytes);
  }
  return lower;
}

std::string normal_form(std::string_view text, std::string_view form) {
  int options = UTF8PROC_STABLE | (form.ends_with('C') ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form.starts_with("NFK")) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, Free> holder(made);
  check(size >= 0, "utf8proc does not normalize valid text");
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(size)};
}

}  // namespace plimsoll
