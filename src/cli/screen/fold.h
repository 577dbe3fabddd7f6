// Text that is longer than a line: folded at word boundaries, or shortened with an ellipsis.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// No line is too long.
constexpr size_t kAnyWidth = std::numeric_limits<size_t>::max();

/// What happens to a word that is longer than a line: a path that is to be copied stays whole, a table's cell is cut.
enum class LongWords { whole, cut };

/// Lines of at most `columns`, broken at spaces, never between a number and its unit; every line but the first of a
/// paragraph begins with `indent` spaces, which count. Line breaks in `text` stay. No text: one empty line.
std::vector<std::string> folded_lines(std::string_view text, size_t columns, size_t indent = 0,
                                      LongWords words = LongWords::whole);

/// The same as one text, every line with its end.
std::string fold(std::string_view text, size_t columns, size_t indent = 0);

/// Help texts and listings: each line that is too long is folded under its last column, which begins behind two spaces
/// or more, or where that lies far to the right a little further in than the line.
std::string fold_columns(std::string_view text, size_t columns);

/// At most `columns`, the end as an ellipsis where something was left out: "bfloat16[8, 3, …".
std::string shorten_end(std::string_view text, size_t columns);

/// At most `columns`, with an ellipsis in the middle, as the end of a path tells most: "layers.…qkv.weight".
std::string shorten_middle(std::string_view text, size_t columns);

}  // namespace plimsoll
