// Declares the handling of Ctrl-C, kill and a terminal that closes: the first ends the run at the next step with a
// checkpoint, the second ends the process. Prepares the three standard streams, in whatever state the parent left them.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace plimsoll::cli {

/// A signal handler for its lifetime; only one may exist at a time. The first SIGINT, SIGTERM or SIGHUP makes the
/// running training stop (request_stop) and is answered on standard error immediately. The next SIGINT or SIGTERM has
/// its default effect. A signal within a fifth of a second of the first counts as the same one: `timeout` and shells
/// send theirs to a process and to its group. A later SIGHUP is ignored, because a lost terminal is no second request.
class StopSignals {
 public:
  /// `answer`: line that answers the first signal, cut at 200 bytes; empty: none. `only_from`: the process whose
  /// signals count; those of others, and of the terminal, are ignored. 0: all count.
  explicit StopSignals(std::string_view answer = {}, pid_t only_from = 0);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Replaces the answer. To be called by one thread only.
  void answer_with(std::string_view answer);

  /// Returns the signal that was received; 0: none.
  int received() const;

  /// Ends the process by the received signal, if there was one: the parent must see the interruption, as a shell's loop
  /// does.
  void end_as_received() const;
};

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
