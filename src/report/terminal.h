// What the other end of a file descriptor can show.
#pragma once

namespace plimsoll {

/// The descriptor is a terminal on which a line can be redrawn: TERM is set and is not "dumb".
bool is_terminal(int descriptor);

/// is_terminal, and NO_COLOR is unset or empty (https://no-color.org).
bool colour_allowed(int descriptor);

/// Columns of the terminal (TIOCGWINSZ); 80 where that is unknown.
int terminal_width(int descriptor);

}  // namespace plimsoll
