// Determines the capabilities of the terminal at a file descriptor, and fits text to a line.
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

/// Returns true if the descriptor is a terminal on which a line can be redrawn: TERM is set and is not "dumb".
bool is_terminal(int descriptor);

/// Returns true if is_terminal(), and NO_COLOR is unset or empty (https://no-color.org).
bool color_allowed(int descriptor);

constexpr int kUnknownWidth = 80;               ///< columns of a terminal that does not report its width
constexpr const char* kClearLine = "\r\x1b[K";  ///< goes to the start of the line and erases it

/// Returns the columns of the terminal (TIOCGWINSZ); kUnknownWidth if they are unknown.
int terminal_width(int descriptor);

/// Size and style of the output that a text is formatted for.
struct Screen {
  size_t columns = kAnyWidth;  ///< maximum columns of a line
  size_t lines = kAnyWidth;    ///< lines that are visible at the same time
  bool bold = false;           ///< titles and headers in bold, by an ANSI sequence
};

/// Columns of text that does not go to a terminal: a pipe, a file.
constexpr size_t kPipeColumns = 100;

/// Returns the size of the terminal at `descriptor` now (80 by 24 if it is unknown). If there is no terminal: any
/// number of lines, and the columns of the variable COLUMNS if it is a number from 20 to 1000000, else kPipeColumns.
/// Bold if color_allowed().
Screen screen_of(int descriptor);

}  // namespace plimsoll
