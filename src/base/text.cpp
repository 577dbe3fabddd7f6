#include "base/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::string one_line(std::string_view text) {
  constexpr size_t longest = 60;
  size_t end = text.size();
  if (end > longest) {
    end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string result = without_controls(text.substr(0, end));
  if (end < text.size()) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  return fmt::format("'{}'", one_line(text));
}

std::string few_names(const std::vector<std::string>& names) {
  constexpr size_t most = 12;
  std::string few;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) few += (i == 0 ? "" : ", ") + one_line(names[i]);
  return names.size() > most ? few + ", ..." : few;
}

namespace {

struct Range {
  int32_t first, last;
};

// Controls, line separators and bidirectional marks. U+202A to U+202E change the direction of the following text.
constexpr std::array<Range, 6> kControls = {
    {{0x00, 0x1f}, {0x7f, 0x9f}, {0x061c, 0x061c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}}};

size_t width_of(const Character& character) {
  if (!character.valid) return 1;
  const auto width = static_cast<size_t>(utf8proc_charwidth(character.code));
  const utf8proc_category_t category = utf8proc_category(character.code);
  // utf8proc gives spacing marks no column, but terminals and wcwidth() give them one. Controls have one for the '?' of
  // without_controls().
  return category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_CC ? std::max<size_t>(width, 1) : width;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += width_of(character);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string_view fit_width(std::string_view text, size_t columns) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = first_character(text.substr(end));
    const size_t width = width_of(character);
    if (width > columns) break;
    columns -= width;
    end += character.bytes;
  }
  return text.substr(0, end);
}

std::string without_controls(std::string_view text, LineBreaks breaks) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const int32_t code = character.valid ? character.code : static_cast<unsigned char>(text[0]);
    const bool kept = code == '\n' && breaks == LineBreaks::kept;
    const auto has_code = [code](Range range) { return range.first <= code && code <= range.last; };
    if (std::ranges::any_of(kControls, has_code) && !kept) {
      result += '?';
    } else {
      result += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return result;
}

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

namespace {

constexpr int64_t kMaxReadBytes = int64_t{1} << 59;  ///< for larger values format_bytes may write EiB, which
                                                     ///< parse_bytes does not read

// Returns one unit of the last digit that format_bytes wrote: "0.01 GiB" of "1.38 GiB".
int64_t last_place_of(std::string text) {
  const size_t last = text.find_last_of("0123456789");
  for (size_t i = 0; i <= last; ++i)
    if (text[i] != '.') text[i] = i == last ? '1' : '0';
  return parse_bytes(text);
}

}  // namespace

std::string format_bytes_up(int64_t bytes) {
  if (bytes < 0 || bytes > kMaxReadBytes) return fmt::format("{} B", bytes);
  const std::string text = format_bytes(bytes);
  if (parse_bytes(text) >= bytes) return text;
  // Rounding to nearest loses at most half a unit of the last digit.
  return format_bytes(bytes + last_place_of(text));
}

}  // namespace plimsoll
