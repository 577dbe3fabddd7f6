// The three files that every process begins with, whatever whoever started it has done with them.
#pragma once

#include <string_view>

namespace plimsoll::cli {

/// Standard input, output and error that are closed (2>&-) are opened on /dev/null: the next file that is opened would
/// take their number, and messages would be written into it. A result that goes to a closed standard output is refused
/// as before. To be called first of all.
void open_closed_streams();

/// Writing to a pipe that nobody reads any more (| head) fails from now on, instead of ending the process: for commands
/// whose work must not be lost with their output.
void outlive_broken_pipes();

/// Writes to standard error. A message that cannot be written there has nobody to be told to: it is no failure.
void tell(std::string_view text) noexcept;

}  // namespace plimsoll::cli
