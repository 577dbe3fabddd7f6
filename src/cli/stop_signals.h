// Ctrl-C, kill and a terminal that closes: the first ends the run at the next step, with a checkpoint; the second ends
// the process.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace plimsoll::cli {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP asks the running training to stop (request_stop) and is answered
/// on standard error at once; the next SIGINT or SIGTERM has its usual effect. One that follows within a fifth of a
/// second is taken for the same: `timeout` and shells send theirs to a process and to its group. A later SIGHUP is
/// ignored: whoever lost the terminal cannot have asked twice. One at a time.
class StopSignals {
 public:
  /// `answer`: the line that the first signal is answered with; empty: none. Cut at 200 bytes.
  /// `only_from`: the process whose signals count; those of others, and of the terminal, are ignored. 0: all count.
  explicit StopSignals(std::string_view answer = {}, pid_t only_from = 0);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Another answer from now on. By one thread.
  void answer_with(std::string_view answer);

  /// The signal that came; 0: none.
  int received() const;

  /// Ends the process by the signal that came, if one did: whoever waits for us is to see that we were interrupted, as
  /// a shell's loop has to.
  void end_as_received() const;
};

}  // namespace plimsoll::cli
