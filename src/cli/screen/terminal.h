// What the other end of a file descriptor can show.
#pragma once

#include <cstddef>

#include "cli/screen/fold.h"

namespace plimsoll {

/// The descriptor is a terminal on which a line can be redrawn: TERM is set and is not "dumb".
bool is_terminal(int descriptor);

/// is_terminal, and NO_COLOR is unset or empty (https://no-color.org).
bool colour_allowed(int descriptor);

constexpr int kUnknownWidth = 80;               ///< columns of a terminal that does not say how many it has
constexpr const char* kClearLine = "\r\x1b[K";  ///< goes to the start of the line and erases it

/// Columns of the terminal (TIOCGWINSZ); kUnknownWidth where that is unknown.
int terminal_width(int descriptor);

/// What a text is laid out for.
struct Screen {
  size_t columns = kAnyWidth;  ///< that a line may have
  size_t lines = kAnyWidth;    ///< that are seen at a time
  bool bold = false;           ///< titles and headers, by an ANSI sequence
};

/// Lines of text elsewhere than on a terminal: a pipe, a file.
constexpr size_t kPipeColumns = 100;

/// The terminal at `descriptor`, as wide and high as it is now (80 by 24 where that is unknown); kPipeColumns and any
/// number of lines where there is none. Bold where colour_allowed.
Screen screen_of(int descriptor);

}  // namespace plimsoll
