// Ctrl-C and kill: the first ends the run at the next step, with a checkpoint; the second ends the process.
#pragma once

namespace plimsoll::cli {

/// While it lives, the first SIGINT or SIGTERM asks the running training to stop (request_stop), and the next has its
/// usual effect. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came; 0: none.
  int received() const;
};

}  // namespace plimsoll::cli
