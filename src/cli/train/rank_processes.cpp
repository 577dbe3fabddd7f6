#include "cli/train/rank_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/text.h"
#include "cli/process.h"
#include "plimsoll/error.h"
#include "plimsoll/ranks.h"

extern char** environ;

namespace plimsoll::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMilliseconds = 500;  ///< interval in which the other ranks are checked after a failure
constexpr size_t kKeptText = 16 << 10;  ///< bytes of a rank's standard error
constexpr int kUsageCode = 2;           ///< exit code of a process whose job or arguments are wrong
constexpr int kNotStarted = 127;        ///< exit code of a process whose program cannot be run
constexpr std::array kStops = {SIGINT, SIGTERM, SIGHUP};

/// Returns true if a process is stopped by a signal: state T of /proc/PID/stat, after the name in brackets.
bool is_stopped(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'T';
}

[[noreturn]] void fail(const std::string& what, int error) {
  throw UserError(fmt::format("{}: {}", what, std::generic_category().message(error)), UserError::Kind::failure);
}

/// A folder that only this user can read, removed at the end.
class PrivateFolder {
 public:
  PrivateFolder() : path_((std::filesystem::temp_directory_path() / "plimsoll-ranks-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) fail("cannot make a temporary folder " + path_, errno);
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A scope in which signals are read from a file instead of being delivered.
class ReadSignals {
 public:
  ReadSignals() {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (const int each : kStops) sigaddset(&mask, each);
    ::pthread_sigmask(SIG_BLOCK, &mask, &before_);
    file_ = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (file_ < 0) {
      const int error = errno;
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
      fail("cannot wait for signals", error);
    }
  }
  ~ReadSignals() {
    ::close(file_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  ReadSignals(const ReadSignals&) = delete;
  ReadSignals& operator=(const ReadSignals&) = delete;

  int file() const { return file_; }
  const sigset_t& before() const { return before_; }
  /// Returns the next received signal; 0: none.
  int next() const {
    signalfd_siginfo info{};
    return ::read(file_, &info, sizeof info) == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo)
                                                                                  : 0;
  }

 private:
  int file_ = -1;
  sigset_t before_{};
};

std::vector<std::string> own_arguments() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// Returns the arguments in the form for execve.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(int rank, int count, const std::string& store) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::string_view(*each).find("PLIMSOLL_RANK") != 0 && std::string_view(*each).find("PLIMSOLL_STORE=") != 0)
      all.emplace_back(*each);
  all.push_back(fmt::format("{}={}", kRankVariable, rank));
  all.push_back(fmt::format("{}={}", kRanksVariable, count));
  all.push_back(fmt::format("{}={}", kStoreVariable, store));
  return all;
}

struct Rank {
  pid_t process = -1;                                    ///< -1: it has ended
  int errors = -1;                                       ///< its standard error; -1: none, or at its end
  std::string text;                                      ///< the end of its standard error
  std::optional<int> status;                             ///< from waitpid
  bool terminated = false;                               ///< we ended it, because another one had failed
  bool stood_still = false;                              ///< it was stopped by a signal
  std::optional<std::chrono::milliseconds> stopped_for;  ///< time for which it is stopped now; empty: it runs

  bool failed() const { return status && *status != 0; }
  int signal() const { return status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0; }
};

/// Returns true if `text` names a rank ("rank 3") other than `rank`.
bool names_another_rank(std::string_view text, int rank) {
  constexpr std::string_view kWord = "rank ";
  for (size_t at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at + 1)) {
    size_t end = at + kWord.size();
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    const std::string_view number = text.substr(at + kWord.size(), end - at - kWord.size());
    if (!number.empty() && number != std::to_string(rank)) return true;
  }
  return false;
}

class Run {
 public:
  explicit Run(const RankProcesses& processes) : processes_(processes), ranks_(static_cast<size_t>(processes.count)) {}
  ~Run() {
    for (Rank& rank : ranks_) {
      if (rank.process > 0) {
        ::kill(rank.process, SIGKILL);
        ::waitpid(rank.process, nullptr, 0);
      }
      if (rank.errors >= 0) ::close(rank.errors);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  int run() {
    for (int rank = 0; rank < processes_.count; ++rank) start(rank);
    while (running()) {
      wait();
      read_errors();
      take_signals();
      reap();
      look_for_stopped();
      hurry();
    }
    read_errors();
    return result();
  }

  /// Returns the signal that was passed on to all ranks and that ended all of them that did not finish normally; 0:
  /// there is none.
  int ended_by() const {
    const bool any = std::ranges::any_of(ranks_, [&](const Rank& each) { return stopped(each); });
    return any && first_failed_ < 0 ? stop_ : 0;
  }

 private:
  void start(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    std::vector<std::string> arguments = processes_.arguments.empty() ? own_arguments() : processes_.arguments;
    std::vector<std::string> environment = environment_of(number, processes_.count, folder_.path() + "/store");
    const std::vector<char*> argv = pointers_to(arguments), envp = pointers_to(environment);
    std::error_code error;
    std::string program = processes_.program;
    if (program.empty()) program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    std::array<int, 2> pipe = {-1, -1};
    if (number > 0 && ::pipe2(pipe.data(), O_CLOEXEC) != 0) fail("cannot make a pipe for a rank", errno);
    const pid_t parent = ::getpid();
    rank.process = ::fork();
    if (rank.process == 0) {  // only calls that are safe between fork and exec
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(kNotStarted);
      if (number > 0) {
        const int nothing = ::open("/dev/null", O_RDWR);
        ::dup2(nothing, STDIN_FILENO);
        ::dup2(nothing, STDOUT_FILENO);
        ::dup2(pipe[1], STDERR_FILENO);
        if (nothing > STDERR_FILENO) ::close(nothing);
      }
      ::pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
      ::execve(program.c_str(), argv.data(), envp.data());
      if (processes_.program.empty())
        ::execve("/proc/self/exe", argv.data(), envp.data());  // the program's file was replaced after the start
      ::_exit(kNotStarted);
    }
    const int fork_error = errno;
    if (number > 0) {
      ::close(pipe[1]);
      rank.errors = pipe[0];
      ::fcntl(rank.errors, F_SETFL, O_NONBLOCK);
    }
    if (rank.process < 0) fail(fmt::format("cannot start rank {}", number), fork_error);
  }

  bool stopped(const Rank& rank) const { return stop_ != 0 && rank.signal() == stop_; }

  bool running() const {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.process > 0; });
  }

  void wait() const {
    std::vector<pollfd> files = {{signals_.file(), POLLIN, 0}};
    for (const Rank& rank : ranks_)
      if (rank.errors >= 0) files.push_back({rank.errors, POLLIN, 0});
    int milliseconds = any_stopped() ? kLookMilliseconds : -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
      milliseconds = static_cast<int>(std::clamp<int64_t>(left, 0, kLookMilliseconds));
    }
    ::poll(files.data(), files.size(), milliseconds);
  }

  void read_errors() {
    std::array<char, 4096> part;
    for (Rank& rank : ranks_)
      while (rank.errors >= 0) {
        const ssize_t bytes = ::read(rank.errors, part.data(), part.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) break;  // no more output at present
        if (bytes == 0) {
          ::close(rank.errors);
          rank.errors = -1;
          break;
        }
        rank.text.append(part.data(), static_cast<size_t>(bytes));
        if (rank.text.size() > 2 * kKeptText) rank.text.erase(0, rank.text.size() - kKeptText);
      }
  }

  void take_signals() {
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      if (signal == SIGCHLD) continue;
      if (stop_ == 0) stop_ = signal;
      send(signal);
    }
  }

  void send(int signal) {
    for (const Rank& rank : ranks_)
      if (rank.process > 0) ::kill(rank.process, signal);
  }

  void reap() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      int status = 0;
      if (rank.process < 0 || ::waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.process = -1;
      rank.status = status;
      // A rank that was stopped did as requested, and another one may still be saving.
      if (status == 0 || first_failed_ >= 0 || stopped(rank)) continue;
      first_failed_ = static_cast<int>(i);
      tell_waiting_ranks(fmt::format("rank {} (host {}) ended before its first step", i, host()));
      deadline_ = Clock::now() + processes_.patience;
    }
  }

  bool any_stopped() const {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.process > 0 && is_stopped(rank.process); });
  }

  /// Measures how long ranks are stopped while others run. An interval counts twice at most: this process may have been
  /// stopped with them.
  void look_for_stopped() {
    const auto now = Clock::now();
    const auto passed = std::min(std::chrono::duration_cast<std::chrono::milliseconds>(now - looked_),
                                 std::chrono::milliseconds(2 * kLookMilliseconds));
    looked_ = now;
    bool any_runs = false;
    for (Rank& rank : ranks_) {
      if (rank.process < 0) continue;
      const bool stopped = is_stopped(rank.process);
      if (!stopped)
        rank.stopped_for.reset();
      else if (rank.stopped_for)
        *rank.stopped_for += passed;
      else
        rank.stopped_for.emplace(0);
      any_runs |= !stopped;
    }
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (any_runs && ranks_[i].stopped_for.value_or(std::chrono::milliseconds(0)) >= processes_.silence)
        tell_waiting_ranks(fmt::format("rank {} (host {}) has not answered for {:g} s; it was before its first step", i,
                                       host(), std::chrono::duration<double>(processes_.silence).count()));
  }

  /// Ends the wait of ranks that have not met all others yet: a rank that is lost may not have come at all.
  void tell_waiting_ranks(const std::string& why) {
    if (std::exchange(told_, true)) return;
    try {
      write_file_atomically(folder_.path() + "/store" + kStoreFaultSuffix, why);
    } catch (const UserError&) {  // a full disk: the ranks are ended at the deadline
    }
  }

  static std::string host() {
    std::array<char, 65> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
  }

  /// Ends the ranks that continue although another one has failed.
  void hurry() {
    if (!deadline_) return;
    // A stopped process (SIGSTOP) handles only SIGKILL. The others have named it by then.
    for (Rank& rank : ranks_)
      if (rank.process > 0 && !rank.terminated && is_stopped(rank.process)) {
        ::kill(rank.process, SIGKILL);
        rank.terminated = rank.stood_still = true;
      }
    if (Clock::now() < *deadline_) return;
    for (Rank& rank : ranks_) {
      if (rank.process < 0) continue;
      ::kill(rank.process, requested_ ? SIGKILL : SIGTERM);
      rank.terminated = true;
    }
    deadline_ = Clock::now() + processes_.grace;
    requested_ = true;
  }

  int result() {
    show_errors();
    if (first_failed_ < 0) return 0;
    const Rank& first = ranks_[static_cast<size_t>(first_failed_)];
    if (const int signal = first.signal(); signal != 0)
      throw UserError(fmt::format("rank {} of {} was ended by signal {} ({}){}", first_failed_, processes_.count,
                                  signal, ::strsignal(signal), ended_others()),
                      UserError::Kind::failure);
    const int code = WEXITSTATUS(*first.status);
    if (code == kNotStarted)
      throw UserError(
          fmt::format("rank {} of {} could not be started: the program cannot be run", first_failed_, processes_.count),
          UserError::Kind::failure);
    if (const std::string others = ended_others(); !others.empty())
      print_status(fmt::format("plimsoll: rank {} failed{}\n", first_failed_, others));
    // The ranks that receive the error of a wrong argument may end before the rank that has found it.
    const bool usage = std::ranges::any_of(ranks_, [](const Rank& rank) {
      return rank.status && WIFEXITED(*rank.status) && WEXITSTATUS(*rank.status) == kUsageCode;
    });
    return usage ? kUsageCode : code;
  }

  std::string ended_others() const {
    const auto list = [&](bool stood_still, const std::string& why) {
      std::string ranks;
      for (size_t i = 0; i < ranks_.size(); ++i)
        if (ranks_[i].terminated && ranks_[i].stood_still == stood_still)
          ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", i);
      const bool several = ranks.find(',') != std::string::npos;
      return ranks.empty() ? ranks
                           : fmt::format("; rank{} {} {} and {} terminated", several ? "s" : "", ranks, why,
                                         several ? "were" : "was");
    };
    const double patience = std::chrono::duration<double>(processes_.patience).count();
    return list(false, fmt::format("did not end within {:g} s", patience)) + list(true, "did not run (SIGSTOP)");
  }

  void show_errors() const {
    // Codes from kUsageCode on are errors that all ranks find in the same job.
    const std::optional<int>& rank0 = ranks_.front().status;
    const int code0 = rank0 && WIFEXITED(*rank0) ? WEXITSTATUS(*rank0) : 0;
    if (rank0 && WIFSIGNALED(*rank0) && !stopped(ranks_.front())) show_what_others_say_of_rank_0();
    for (size_t i = 1; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (!rank.failed() || rank.terminated || stopped(rank)) continue;
      const bool same = code0 >= kUsageCode && WIFEXITED(*rank.status) && WEXITSTATUS(*rank.status) == code0;
      if (same || names_another_rank(rank.text, static_cast<int>(i))) continue;
      std::string_view left = rank.text;
      if (left.size() > kKeptText) left.remove_prefix(left.size() - kKeptText);
      while (!left.empty()) {
        const std::string_view line = left.substr(0, left.find('\n'));
        left.remove_prefix(std::min(line.size() + 1, left.size()));
        print_status(fmt::format("rank {}: {}\n", i, without_controls(line)));
      }
    }
  }

  /// Shows the line of another rank that says where rank 0 was. Rank 0 shows such lines of the others.
  void show_what_others_say_of_rank_0() const {
    for (size_t i = 1; i < ranks_.size(); ++i) {
      const std::string_view text = ranks_[i].text;
      const size_t at = text.find(": rank 0 (host ");
      if (at == std::string_view::npos) continue;
      const size_t begin = text.rfind('\n', at) + 1;  // 0 on the first line
      print_status(without_controls(text.substr(begin, text.find('\n', at) - begin)) + "\n");
      return;
    }
  }

  const RankProcesses& processes_;
  PrivateFolder folder_;
  ReadSignals signals_;
  std::vector<Rank> ranks_;
  int stop_ = 0;                               ///< the first signal that was passed on
  int first_failed_ = -1;                      ///< the rank; -1: none
  bool told_ = false;                          ///< tell_waiting_ranks() was called
  Clock::time_point looked_ = Clock::now();    ///< last call of look_for_stopped()
  bool requested_ = false;                     ///< SIGTERM was sent to ranks that did not end
  std::optional<Clock::time_point> deadline_;  ///< time of the next action of hurry()
};

}  // namespace

int run_rank_processes(const RankProcesses& processes) {
  int code = 0, signal = 0;
  {
    Run run(processes);
    code = run.run();
    signal = run.ended_by();
  }
  if (signal != 0) {  // the parent must see the interruption
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  return code;
}

}  // namespace plimsoll::cli
