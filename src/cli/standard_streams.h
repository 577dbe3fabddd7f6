// Prepares the three standard streams of a process, in whatever state its parent left them.
#pragma once

#include <string_view>

namespace plimsoll::cli {

/// Opens standard input, output and error on /dev/null if they are closed (2>&-). Otherwise the next opened file would
/// take their number, and messages would be written into it. A result for a closed standard output is refused as
/// before. Must be called before anything else.
void open_closed_streams();

/// Makes a write to a pipe without readers (| head) fail instead of ending the process: for commands whose work must
/// not be lost with their output.
void ignore_sigpipe();

/// Writes to standard error. A failed write is ignored, because there is no other place for the message.
void print_status(std::string_view text) noexcept;

}  // namespace plimsoll::cli
