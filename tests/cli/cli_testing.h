// Declares helpers that run the real program in a folder for the test.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "test_files.h"
#include "thresholds.h"

namespace plimsoll::cli_testing {

using Arguments = std::vector<std::string>;
using nlohmann::json;

// Limits of a program that hangs. It computes at most so many seconds on a processor (SIGXCPU), whatever else the
// machine does, and it waits at most so many (SIGALRM).
constexpr rlim_t kMaxProcessorSeconds = 120;
constexpr unsigned kMaxWaitSeconds = 1800;

/// Sets the limits for this process and for the program that it becomes.
inline void limit_run() {
  const rlimit limit{kMaxProcessorSeconds, kMaxProcessorSeconds + 10};  // after the second one SIGKILL
  ::setrlimit(RLIMIT_CPU, &limit);
  ::alarm(kMaxWaitSeconds);
}

struct Outcome {
  int exit_code = -1;  ///< -1: ended by a signal
  int signal = 0;
  std::string out, err;
  int64_t resident_bytes = 0;  ///< peak resident bytes
};

class CliTest : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, std::string_view text) const {
    return put_file(folder_ / name, text);
  }
  std::string get(const std::string& name) const { return get_file(folder_ / name); }

  /// Starts the program in the test's folder, with standard output and error in files, and returns its process.
  /// `in_child` is called in the child before the program begins: to set limits, to open or close files.
  pid_t start(const Arguments& arguments, const std::string& out = "out.txt",
              const std::function<void()>& in_child = {}) const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    std::vector<std::string> words = {PLIMSOLL_BINARY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const bool ready = ::chdir(folder_.c_str()) == 0 && open_as(out.c_str(), STDOUT_FILENO) &&
                       open_as("err.txt", STDERR_FILENO) && ::close(STDIN_FILENO) == 0;
    limit_run();
    // A shell has programs in its background ignore Ctrl-C, and programs inherit that.
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    ::unsetenv("COLUMNS");
    if (ready && in_child) in_child();
    if (ready) ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  Outcome finish(pid_t child) const {
    int status = 0;
    rusage usage{};
    if (::wait4(child, &status, 0, &usage) != child) throw std::runtime_error("no such process");
    Outcome outcome;
    outcome.resident_bytes = usage.ru_maxrss * 1024;
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    outcome.out = get("out.txt");
    outcome.err = get("err.txt");
    return outcome;
  }

  Outcome run(const Arguments& arguments, const std::string& out = "out.txt") const {
    return finish(start(arguments, out));
  }

  Outcome run_with(const std::function<void()>& in_child, const Arguments& arguments) const {
    return finish(start(arguments, "out.txt", in_child));
  }

  static bool ended(pid_t child) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
  }

  /// Waits until `holds` is true or the process has ended; returns whether it was true.
  static bool wait_for(pid_t child, const std::function<bool()>& holds) {
    while (!holds()) {
      if (ended(child)) return holds();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  /// Returns the seconds that a process has had of processors.
  static double processor_seconds(pid_t process) {
    const std::string stat = get_file("/proc/" + std::to_string(process) + "/stat");
    // Fields 14 and 15, in ticks; the name in field 2 may contain blanks.
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    int64_t user = 0, system = 0;
    fields >> user >> system;
    return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

  /// Waits until a process has computed for `seconds` more, on an idle or a busy machine, or has ended.
  static void let_compute(pid_t child, double seconds) {
    const double end = processor_seconds(child) + seconds;
    EXPECT_TRUE(wait_for(child, [&] { return processor_seconds(child) >= end; }));
  }

  /// Returns the names of the files that a call added to the folder, except its standard output and error.
  std::set<std::string> new_files(const std::function<void()>& call) const {
    const std::set<std::string> before = names();
    call();
    std::set<std::string> added;
    for (const std::string& name : names())
      if (!before.contains(name) && name != "out.txt" && name != "err.txt") added.insert(name);
    return added;
  }

  /// Writes a job that trains within a second: job.yaml and its corpus.
  void put_tiny_job() const {
    std::string corpus;
    for (int i = 0; i < 400; ++i) corpus += "line " + std::to_string(i * 7919 % 1000) + " of a small text\n";
    put("corpus.txt", corpus);
    put("job.yaml",
        "seed: " + std::to_string(test_seed()) +
            "\n"
            "threads: 1\n"
            "max_steps: 6\n"
            "batch_size: 4\n"
            "micro_batch_size: 2\n"
            "eval_batches: 2\n"
            "model: {hidden_size: 32, num_layers: 2, num_heads: 2}\n"
            "data: {files: [corpus.txt], tokenizer: bytes, sequence_length: 16, validation_fraction: 0.1}\n");
  }

  const std::filesystem::path& folder() const { return folder_; }

  static bool open_as(const char* file, int descriptor) {
    const int opened = ::open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return opened >= 0 && ::dup2(opened, descriptor) == descriptor && ::close(opened) == 0;
  }

 private:
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      found.insert(entry.path().filename().string());
    return found;
  }

  const TempFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

inline std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

inline int64_t sum_of(const json& breakdown) {
  int64_t sum = 0;
  for (const auto& part : breakdown) sum += part.get<int64_t>();
  return sum;
}

/// Expects one human-readable message: it names the program and has one line; standard output is empty.
inline void expect_refusal(const Outcome& outcome, int exit_code, const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("plimsoll: "));
  EXPECT_THAT(outcome.err, ::testing::EndsWith("\n"));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, message);
}

}  // namespace plimsoll::cli_testing
