#include "cli/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kSameNanoseconds = 200'000'000;
constexpr size_t kMaxAnswerLength = 200;

// Data that a signal handler may access.
struct Answer {
  std::array<char, kMaxAnswerLength + 16> text{};
  size_t bytes = 0;
};
std::atomic<int> received_signal = 0;
std::atomic<int64_t> received_at = 0;
std::atomic<pid_t> only_sender = 0;  ///< 0: any process
std::array<Answer, 2> answers;
std::atomic<const Answer*> answer = nullptr;
static_assert(std::atomic<const Answer*>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free);

int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void ask_to_stop(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (const pid_t sender = only_sender; sender != 0 && (info == nullptr || info->si_pid != sender)) return;
  // Two threads may be here at the same time. The first one sets the time, before another can compare with it.
  int64_t none = 0;
  if (received_at.compare_exchange_strong(none, nanoseconds_now())) {
    received_signal = signal;
    request_stop();
    if (const Answer* line = answer; line != nullptr) (void)!::write(STDERR_FILENO, line->text.data(), line->bytes);
  } else if (signal != SIGHUP && nanoseconds_now() - received_at > kSameNanoseconds) {
    end_by(signal);  // takes effect after this handler has returned
  }
  errno = error;
}

}  // namespace

StopSignals::StopSignals(std::string_view answer, pid_t only_from) {
  only_sender = only_from;
  received_signal = 0;
  received_at = 0;
  answer_with(answer);
  struct sigaction action {};
  action.sa_sigaction = ask_to_stop;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (const int signal : kSignals) {
    struct sigaction before {};
    // A parent that ignores a signal for us (nohup, a shell's background job) is respected.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ask_to_stop)
      std::signal(signal, SIG_DFL);
  }
  answer = nullptr;
}

void StopSignals::answer_with(std::string_view text) {
  if (text.empty()) {
    answer = nullptr;
    return;
  }
  Answer& next = answer == &answers[0] ? answers[1] : answers[0];
  // On a terminal the line replaces the progress line, or "^C".
  const std::string line =
      fmt::format("{}{}\n", is_terminal(STDERR_FILENO) ? "\r\x1b[K" : "", text.substr(0, kMaxAnswerLength));
  next.bytes = static_cast<size_t>(std::ranges::copy(line, next.text.begin()).out - next.text.begin());
  answer = &next;
}

int StopSignals::received() const {
  return received_signal;
}

void StopSignals::end_as_received() const {
  if (const int signal = received_signal; signal != 0) end_by(signal);
}

void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is `stream`, because lower numbers are in use. Messages may get
    // lost, results may not: writing to a stream that is open for reading fails.
    (void)!::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void ignore_sigpipe() {
  std::signal(SIGPIPE, SIG_IGN);
}

void print_status(std::string_view text) noexcept {
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace plimsoll::cli
