// Tests the output of every command on terminals of several sizes: no line is wider than the terminal, which would wrap
// it.
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the text on a terminal: escape sequences of the form ESC [ ... letter are removed.
std::string without_escapes(const std::string& text) {
  std::string seen;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      for (i += 2; i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]));) ++i;
    } else {
      seen += text[i];
    }
  }
  return seen;
}

// Returns the final lines: a carriage return starts a line again.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  const std::string seen = without_escapes(text);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == '\n')
      lines.emplace_back();
    else if (seen[i] != '\r')
      lines.back() += seen[i];
    else if (i + 1 < seen.size() && seen[i + 1] != '\n')
      lines.back().clear();
  }
  return lines;
}

// Returns the width of the widest line, overdrawn lines included.
size_t widest(const std::string& text) {
  size_t most = 0;
  std::string line;
  for (const char c : without_escapes(text) + "\n") {
    if (c != '\n' && c != '\r') {
      line += c;
      continue;
    }
    most = std::max(most, display_width(line));
    line.clear();
  }
  return most;
}

struct Shown {
  int exit_code = -1;
  std::string text;  ///< all text that was sent to the terminal, standard error's too
};

class Screens : public CliTest {
 protected:
  Screens() {
    put_tiny_job();
    ::setenv("PLIMSOLL_RUNTIME_DIR", (folder() / "runs").c_str(), 1);
    ::setenv("XDG_CACHE_HOME", folder().c_str(), 1);
  }
  ~Screens() override {
    ::unsetenv("PLIMSOLL_RUNTIME_DIR");
    ::unsetenv("XDG_CACHE_HOME");
  }

  /// Runs the program on a terminal of this size. `looks`: SIGINT after this number of seconds.
  Shown show(const Arguments& arguments, unsigned short columns, unsigned short lines, double looks = 0) const {
    winsize size{lines, columns, 0, 0};
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      std::vector<std::string> words = {PLIMSOLL_BINARY};
      words.insert(words.end(), arguments.begin(), arguments.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::setenv("TERM", "xterm-256color", 1);
      limit_run();
      for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);  // as start()
      if (::chdir(folder().c_str()) == 0) ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    // Times count from the first shown line: on a busy machine it comes late.
    std::atomic<bool> seen = looks <= 0;
    std::thread interrupter([&] {
      if (looks <= 0) return;
      while (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::this_thread::sleep_for(std::chrono::duration<double>(looks));
      ::kill(child, SIGINT);
    });
    Shown shown;
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(terminal, piece, sizeof piece)) > 0; seen = true) shown.text.append(piece, got);
    seen = true;
    interrupter.join();
    ::close(terminal);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) shown.exit_code = WEXITSTATUS(status);
    return shown;
  }
};

const std::vector<Arguments> kCommands = {
    {"plan", "job.yaml"},
    {"plan", "job.yaml", "memory_budget=64KiB"},
    {"plan", "job.yaml", "--frontier", "4", "--what-if"},
    {"plan", "job.yaml", "memory_budget=1MiB", "--gpu", "a6000,rtx3060-12gb,rtx-pro-6000"},
    {"trace", "job.yaml", "--hot", "--measure", "0"},
    {"trace", "job.yaml", "--hot", "6", "--measure", "0"},
    {"trace", "job.yaml", "--scheduled", "--limit", "30"},
    {"gpus"},
    {"--help"},
    {"plan", "--help"},
    {"train", "--help"},
    {"trace", "--help"},
    {"gpus", "a6000"},
    {"doctor", "--threads", "1"},
    {"train", "job.yaml", "memory_budget=64MiB", "checkpoint.directory=checkpoints-of-a-run-with-a-long-name"},
    {"train", "job.yaml", "memory_budget=64KiB"},
    {"train", "job.yaml", "optimizer.learning_rate=-1"},
    {"compare", "job.yaml", "--steps", "3", "--measure", "0"},
};

std::string describe_command(const Arguments& arguments) {
  std::string words;
  for (const std::string& word : arguments) words += word + " ";
  return words;
}

TEST_F(Screens, NoLineIsWiderThanATerminalOf80Columns) {
  for (const Arguments& arguments : kCommands) {
    const Shown shown = show(arguments, 80, 24);
    EXPECT_THAT(shown.exit_code, ::testing::AnyOf(0, 2, 3)) << describe_command(arguments) << shown.text;
    EXPECT_LE(widest(shown.text), 80u) << describe_command(arguments) << "\n" << shown.text;
    EXPECT_THAT(shown.text, Not(HasSubstr("\t")));
  }
}

TEST_F(Screens, APipeGets100Columns) {
  for (const Arguments& arguments : kCommands) {
    if (arguments.back() == "30") continue;  // one operator a line
    const Outcome outcome = run(arguments);
    EXPECT_LE(widest(outcome.out), 100u) << describe_command(arguments) << "\n" << outcome.out;
    EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
  }
}

TEST_F(Screens, EveryHelpInAPipeIsFolded) {
  size_t most = 0;
  for (const char* command :
       {"", "plan", "train", "trace", "place", "compare", "doctor", "gpus", "export", "monitor", "completion"}) {
    const Arguments arguments = *command == 0 ? Arguments{"--help"} : Arguments{command, "--help"};
    const Outcome outcome = run(arguments);
    EXPECT_LE(widest(outcome.out), 100u) << outcome.out;
    most = std::max(most, widest(outcome.out));
    const Outcome wide = run_with([] { ::setenv("COLUMNS", "100000", 1); }, arguments);
    EXPECT_GE(widest(wide.out), widest(outcome.out));
    EXPECT_LE(std::ranges::count(wide.out, '\n'), std::ranges::count(outcome.out, '\n'));
  }
  EXPECT_GT(most, 90u);
  const std::string plan = run_with([] { ::setenv("COLUMNS", "60", 1); }, {"plan", "--help"}).out;
  EXPECT_LE(widest(plan), 60u) << plan;
  for (const char* wrong : {"", "0", "19", "wide", "80x", "-80", "99999999999999999999"})
    EXPECT_LE(widest(run_with([=] { ::setenv("COLUMNS", wrong, 1); }, {"plan", "--help"}).out), 100u) << wrong;
}

TEST_F(Screens, ColumnsThatDoNotFitAreNamed) {
  const std::vector<std::string> gpus = lines_of(show({"gpus"}, 80, 24).text);
  ASSERT_GT(gpus.size(), 60u);
  const std::string end = gpus[gpus.size() - 4] + "\n" + gpus[gpus.size() - 3] + "\n" + gpus[gpus.size() - 2] + "\n";
  EXPECT_THAT(end, ContainsRegex("^gpu +name +usable GiB +of +GB/s +bf16.*\nLeft out on 80 columns: .*context MiB"))
      << "the header scrolled away, and is repeated";
  const std::string note = "Left out on 100 columns: host GB/s, context MiB; COLUMNS=";
  const std::string piped = run({"gpus"}).out;
  ASSERT_THAT(piped, HasSubstr(note));
  const int needed = std::stoi(piped.substr(piped.find(note) + note.size()));
  const auto at = [&](int columns) {
    return run_with([=] { ::setenv("COLUMNS", std::to_string(columns).c_str(), 1); }, {"gpus"}).out;
  };
  EXPECT_THAT(at(needed), AllOf(HasSubstr("host GB/s  context MiB"), Not(HasSubstr("Left out"))));
  EXPECT_THAT(at(needed - 1), HasSubstr("Left out on "));
  EXPECT_THAT(show({"gpus", "--links"}, 60, 200).text, HasSubstr("Left out on 60 columns: "));
}

TEST_F(Screens, WiderTerminalsAreUsed) {
  const Arguments hot = {"trace", "job.yaml", "--hot", "--measure", "0"};
  EXPECT_THAT(show(hot, 80, 24).text, Not(HasSubstr("float32[")));
  const Shown wide = show(hot, 140, 50);
  EXPECT_THAT(wide.text, AllOf(HasSubstr("operands"), HasSubstr("float32["), HasSubstr("floor")));
  EXPECT_GT(widest(wide.text), 120u);
  EXPECT_LE(widest(wide.text), 140u);
  EXPECT_THAT(show({"gpus"}, 80, 24).text, Not(HasSubstr("host GB/s  context MiB")));
  const std::string gpus = show({"gpus"}, 150, 24).text;
  EXPECT_THAT(gpus, ContainsRegex("a6000 +NVIDIA RTX A6000 +47\\.40 +48 +768 +154.8 +154.8 +38.7 +31.5 +446\r?\n"));
  EXPECT_THAT(gpus, AllOf(HasSubstr("context MiB"), HasSubstr("host GB/s"), ContainsRegex("m2-16gb .* unified ")));
  const Arguments compare = {"compare", "job.yaml", "--steps", "3", "--measure", "0"};
  EXPECT_THAT(show(compare, 200, 50).text, HasSubstr("settings"));
  EXPECT_THAT(run(hot).out, HasSubstr("\n  float32["));  // a pipe has lines enough for all operands
}

// The trace has the largest number of kinds of ops that a terminal shows at a time.
TEST_F(Screens, HotOpsFillTheTerminalAndNoMore) {
  for (const unsigned short lines : {24, 30}) {
    const std::string text = show({"trace", "job.yaml", "--hot", "--measure", "0"}, 80, lines).text;
    EXPECT_LE(lines_of(text).size(), lines);
    EXPECT_GE(lines_of(text).size(), lines - 1u) << text;
  }
}

// Text that scrolled off the top is repeated at the end. On a busy machine an early answer comes before the plan's.
TEST_F(Screens, TheAnswerIsSeenOnATerminal) {
  const auto shown = [&](unsigned short lines) {
    std::vector<std::string> all = lines_of(show({"plan", "job.yaml", "memory_budget=1GiB"}, 80, lines).text);
    std::erase_if(all, [](const std::string& line) { return line.ends_with("; searching for the fastest plan"); });
    return all;
  };
  const std::vector<std::string> lines = shown(24);
  ASSERT_GT(lines.size(), 24u);
  EXPECT_THAT(lines.front(), HasSubstr("fits: "));
  EXPECT_EQ(lines[lines.size() - 2], lines.front());
  const std::vector<std::string> tall = shown(200);
  EXPECT_NE(tall[tall.size() - 2], tall.front());
}

TEST_F(Screens, TheMonitorFits80By24) {
  std::vector<pid_t> runs;
  const auto end_runs = [&] {
    for (const pid_t each : runs) ::kill(each, SIGKILL);
    for (const pid_t each : runs) ::waitpid(each, nullptr, 0);
  };
  for (int count = 0; count < 3; ++count) {
    runs.push_back(start({"train", "job.yaml", "max_steps=1000000", "memory_budget=1GiB"}, "train.txt"));
    while (!ended(runs.back())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"].size() == runs.size()) break;
    }
    const Shown shown = show({"monitor", "--interval", "0.2"}, 80, 24, 2);
    EXPECT_EQ(shown.exit_code, 0);
    EXPECT_LE(widest(shown.text), 80u) << shown.text;
    const std::string home = "\x1b[H";
    size_t frames = 0;
    for (size_t at = shown.text.find(home); at != std::string::npos; ++frames) {
      const size_t next = shown.text.find(home, at + 1);
      const std::string frame = shown.text.substr(at, next == std::string::npos ? next : next - at);
      EXPECT_LE(lines_of(frame).size(), 24u) << frame;
      EXPECT_THAT(frame, AllOf(HasSubstr("This machine"), HasSubstr("job.yaml"), HasSubstr("device memory used")));
      at = next;
    }
    EXPECT_GE(frames, 1u);
    EXPECT_LE(widest(run({"monitor", "--once"}).out), 100u);
  }
  end_runs();
}

}  // namespace
}  // namespace plimsoll::cli_testing
