#include "base/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace plimsoll {
namespace {

struct Range {
  char32_t first, last;
};

// From Unicode's EastAsianWidth.txt (W and F) and the combining blocks, with small gaps closed.
constexpr std::array<Range, 16> kWide = {{{0x1100, 0x115f},
                                          {0x231a, 0x231b},
                                          {0x23e9, 0x23ec},
                                          {0x2705, 0x2705},
                                          {0x274c, 0x274c},
                                          {0x2e80, 0x303e},
                                          {0x3041, 0xa4cf},
                                          {0xa960, 0xa97c},
                                          {0xac00, 0xd7a3},
                                          {0xf900, 0xfaff},
                                          {0xfe30, 0xfe6f},
                                          {0xff00, 0xff60},
                                          {0xffe0, 0xffe6},
                                          {0x1f300, 0x1f64f},
                                          {0x1f680, 0x1f9ff},
                                          {0x20000, 0x3fffd}}};
constexpr std::array<Range, 8> kNone = {{{0x0300, 0x036f},
                                         {0x0483, 0x0489},
                                         {0x1ab0, 0x1aff},
                                         {0x1dc0, 0x1dff},
                                         {0x200b, 0x200f},
                                         {0x20d0, 0x20ff},
                                         {0xfe00, 0xfe0f},
                                         {0xfe20, 0xfe2f}}};

// Controls, line separators and bidirectional marks. U+202A to U+202E change the direction of the following text.
constexpr std::array<Range, 6> kControls = {
    {{0x00, 0x1f}, {0x7f, 0x9f}, {0x061c, 0x061c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}}};

template <size_t N>
bool in_any(const std::array<Range, N>& ranges, char32_t code) {
  return std::ranges::any_of(ranges, [&](Range range) { return range.first <= code && code <= range.last; });
}

struct CodePoint {
  size_t bytes;
  char32_t value;
};

CodePoint first_code_point(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t bytes = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
  if (bytes == 1 || bytes > text.size()) return {1, lead};
  char32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {1, lead};
    code = code << 6 | (next & 0x3f);
  }
  // Overlong, a surrogate or beyond Unicode: not UTF-8.
  constexpr std::array<char32_t, 5> kFirst = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kFirst[bytes] || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return {1, lead};
  return {bytes, code};
}

size_t width_of(char32_t code) {
  if (code < 0x300) return 1;
  return in_any(kNone, code) ? 0 : in_any(kWide, code) ? 2 : 1;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    CodePoint character = first_code_point(text);
    columns += width_of(character.value);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string_view fit_width(std::string_view text, size_t columns) {
  size_t end = 0;
  while (end < text.size()) {
    CodePoint character = first_code_point(text.substr(end));
    size_t width = width_of(character.value);
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
    const CodePoint character = first_code_point(text);
    const bool kept = character.value == '\n' && breaks == LineBreaks::kept;
    if (in_any(kControls, character.value) && !kept) {
      result += '?';
    } else {
      result += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return result;
}

}  // namespace plimsoll
