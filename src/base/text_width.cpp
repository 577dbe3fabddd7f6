#include "base/text_width.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/unicode_text.h"

namespace plimsoll {
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

}  // namespace plimsoll
