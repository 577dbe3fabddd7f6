// Computes the width of text on a terminal, for columns that line up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

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

}  // namespace plimsoll
