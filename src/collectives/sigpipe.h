// Blocks SIGPIPE, so that a write to a closed connection does not end the process: Gloo and c10d write without
// MSG_NOSIGNAL.
#pragma once

#include <signal.h>

#include <ctime>

namespace plimsoll {

/// A scope that blocks SIGPIPE on this thread, and on threads that start during it. A write to a closed connection is
/// an error then.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (::sigismember(&before_, SIGPIPE)) return;
#ifdef __linux__
    const timespec now{};
    ::sigtimedwait(&pipe_, nullptr, &now);  // consumes a signal that arrived in the scope
#endif
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace plimsoll
