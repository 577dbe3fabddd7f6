#include "cli/stop_signals.h"

#include <csignal>

#include "plimsoll/train_job.h"

namespace plimsoll::cli {
namespace {

volatile std::sig_atomic_t received_signal = 0;

// SA_RESETHAND has put the default action back before this runs.
void ask_to_stop(int signal) {
  received_signal = signal;
  request_stop();
  // The second signal may be of the other kind.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    // A parent that ignores a signal for us (nohup, a shell's background job) keeps its will.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == ask_to_stop) std::signal(signal, SIG_DFL);
  }
}

int StopSignals::received() const {
  return received_signal;
}

}  // namespace plimsoll::cli
