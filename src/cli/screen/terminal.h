// Determines the capabilities of the terminal at a file descriptor.
#pragma once

#include <cstddef>

#include "cli/screen/fold.h"

namespace plimsoll {

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
