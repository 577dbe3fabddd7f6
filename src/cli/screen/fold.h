// Fits text to a line: folded at word boundaries, or shortened with an ellipsis.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Width without a limit.
constexpr size_t kAnyWidth = std::numeric_limits<size_t>::max();

/// Treatment of a word that is longer than a line: a path for copying stays whole, a table's cell is cut.
enum class LongWords { whole, cut };

/// Returns lines of at most `columns`, broken at spaces, never between a number and its unit. Every line but the first
/// of a paragraph begins with `indent` spaces, which count. Line breaks in `text` stay. Empty text gives one empty
/// line.
std::vector<std::string> folded_lines(std::string_view text, size_t columns, size_t indent = 0,
                                      LongWords words = LongWords::whole);

/// Returns the lines of folded_lines() as one text, each with its line end.
std::string fold(std::string_view text, size_t columns, size_t indent = 0);

/// Folds help texts and listings: a line that is too long is folded under its last column, which begins after two
/// spaces or more. If that column is far to the right, continuation lines are indented slightly more than the line.
/// A description that has a line of its own keeps its column.
std::string fold_columns(std::string_view text, size_t columns);

/// Returns at most `columns` of `text`, with an ellipsis at the end if it was cut: "bfloat16[8, 3, …".
std::string shorten_end(std::string_view text, size_t columns);

/// Returns at most `columns` of `text`, with an ellipsis in the middle, because the end of a path is the most specific:
/// "layers.…qkv.weight".
std::string shorten_middle(std::string_view text, size_t columns);

}  // namespace plimsoll
