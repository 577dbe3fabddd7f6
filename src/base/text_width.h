// How wide text stands on a terminal, for columns that line up.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

/// Columns that UTF-8 text takes: combining marks none, CJK and emoji two, everything else one. A byte that is no
/// UTF-8 counts one. Simple cases only: no grapheme clusters.
size_t display_width(std::string_view text);

/// The longest start of `text` that takes at most `columns`, never cut inside a character.
std::string_view fit_width(std::string_view text, size_t columns);

/// `text` with every control character (line breaks and terminal escapes from names in files) as '?'.
std::string without_controls(std::string_view text);

}  // namespace plimsoll
