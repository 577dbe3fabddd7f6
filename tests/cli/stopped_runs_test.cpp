// Tests events at a terminal or on a machine that must not cost a run its steps.
#include <signal.h>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAnswer = "saving after this step; press Ctrl-C again to stop immediately\n";

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A pipe without a reader, as standard output or error.
void open_broken_pipe_as(int descriptor) {
  int ends[2];
  if (::pipe(ends) != 0 || ::dup2(ends[1], descriptor) != descriptor) ::_exit(126);
  ::close(ends[0]);
  ::close(ends[1]);
}

class StoppedRuns : public CliTest {
 protected:
  StoppedRuns() { put_tiny_job(); }

  int64_t lines_of_metrics() const { return std::ranges::count(get("metrics.jsonl"), '\n'); }

  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "run", none))
      if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename().string());
    return names;
  }

  /// A run within a step of hours: the first epoch's steps are short.
  pid_t start_a_long_step() const {
    put("long.yaml",
        "threads: 1\n"
        "max_steps: 1000\n"
        "micro_batch_size: 1\n"
        "model: {hidden_size: 32, num_layers: 2, num_heads: 2}\n"
        "data: {files: [corpus.txt], tokenizer: bytes, sequence_length: 1024, validation_fraction: 0}\n");
    const Outcome first = run({"train", "long.yaml", "max_epochs=1", "gradient_accumulation_steps=1", "--json", "-"});
    EXPECT_EQ(first.exit_code, 0) << first.err;
    const int64_t steps = json::parse(first.out)["steps"];
    const Arguments all = {"train", "long.yaml", "gradient_accumulation_steps={0: 1, 1: 1000000}",
                           "checkpoint.directory=run", "log.metrics_file=metrics.jsonl"};
    const pid_t child = start(all);
    EXPECT_TRUE(wait_for(child, [&] { return lines_of_metrics() == steps; })) << get("err.txt");
    let_compute(child, 0.3);  // from the line to the next step
    return child;
  }
};

TEST_F(StoppedRuns, EverySignalThatAsksForTheEndSaves) {
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) {
    std::filesystem::remove_all(folder() / "run");
    std::filesystem::remove(folder() / "metrics.jsonl");
    const pid_t child = start({"train", "job.yaml", "max_steps=100000000", "log.metrics_file=metrics.jsonl",
                               "checkpoint.directory=run", "--json", "report.json"});
    ASSERT_TRUE(wait_for(child, [&] { return lines_of_metrics() > 0; }));
    ASSERT_EQ(::kill(child, signal), 0);
    const Outcome outcome = finish(child);
    EXPECT_EQ(outcome.signal, signal) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(kAnswer), HasSubstr("saved")));
    EXPECT_EQ(checkpoints().size(), 1u);
    EXPECT_EQ(json::parse(get("report.json"))["stopped"], true);
  }
}

TEST_F(StoppedRuns, TheFirstIsAnsweredAtOnceAndTheSecondEndsTheStep) {
  const pid_t child = start_a_long_step();
  ASSERT_EQ(::kill(child, SIGINT), 0);
  EXPECT_TRUE(wait_for(child, [&] { return get("err.txt").ends_with(kAnswer); })) << get("err.txt");
  EXPECT_FALSE(ended(child));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // two that come together count as one
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_EQ(count_of(kAnswer, outcome.err), 1u);
  EXPECT_THAT(outcome.err, Not(HasSubstr("saved")));
  EXPECT_TRUE(checkpoints().empty());
}

// The kernel and the shell both send it when a terminal closes.
TEST_F(StoppedRuns, ASecondHangUpIsNoSecondWish) {
  const pid_t child = start_a_long_step();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(::kill(child, SIGHUP), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_FALSE(ended(child));
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(finish(child).signal, SIGTERM);
}

TEST_F(StoppedRuns, NohupIsHonored) {
  const pid_t child = start({"train", "job.yaml", "max_steps=100000000", "log.metrics_file=metrics.jsonl"}, "out.txt",
                            [] { ::signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(wait_for(child, [&] { return lines_of_metrics() > 0; }));
  ASSERT_EQ(::kill(child, SIGHUP), 0);
  const int64_t before = lines_of_metrics();
  EXPECT_TRUE(wait_for(child, [&] { return lines_of_metrics() > before + 1; }));
  ASSERT_EQ(::kill(child, SIGINT), 0);
  EXPECT_EQ(finish(child).signal, SIGINT);
}

TEST_F(StoppedRuns, AFullDiskUnderTheMetricsEndsNothing) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Outcome outcome =
      run({"train", "job.yaml", "log.metrics_file=/dev/full", "checkpoint.directory=run", "--json", "report.json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(count_of("; the run continues without", outcome.err), 1u) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("not written: 7 lines of the metrics, the first of step 1: cannot write "
                                           "/dev/full: No space left on device"),
                                 HasSubstr("plimsoll: all 6 steps are done and saved, ")));
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"step-00000006.safetensors"}));
  const json report = json::parse(get("report.json"));
  EXPECT_EQ(report["losses"].size(), 6u);
  EXPECT_EQ(report["not_written"].size(), 1u);
}

// The limit of `ulimit -f`: the line that crosses it is removed, and the text before it stays.
TEST_F(StoppedRuns, ALimitOnFilesUnderTheMetricsEndsNothing) {
  constexpr rlim_t limit = 8 << 20;
  put("metrics.jsonl", std::string(limit - 21, ' ') + "\n");
  const Outcome outcome = run_with(
      [] {
        const rlimit files{limit, limit};
        ::setrlimit(RLIMIT_FSIZE, &files);
      },
      {"train", "job.yaml", "log.metrics_file=metrics.jsonl", "checkpoint.directory=run"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("not written: 7 lines of the metrics"));
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"step-00000006.safetensors"}));
  EXPECT_EQ(get("metrics.jsonl").size(), limit - 20);
}

TEST_F(StoppedRuns, AReaderThatLeavesEndsNothing) {
  const Outcome outcome = run_with([] { open_broken_pipe_as(STDOUT_FILENO); },
                                   {"train", "job.yaml", "checkpoint.directory=run", "--json", "report.json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("not written: cannot write to standard output: Broken pipe"),
                                 HasSubstr("all 6 steps are done and saved")));
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"step-00000006.safetensors"}));
  EXPECT_EQ(json::parse(get("report.json"))["losses"].size(), 6u);
  // Messages are no result.
  const Outcome silent = run_with([] { open_broken_pipe_as(STDERR_FILENO); }, {"train", "job.yaml"});
  EXPECT_EQ(silent.exit_code, 0);
  EXPECT_THAT(silent.out, HasSubstr("Memory at the peak"));
}

TEST_F(StoppedRuns, StandardErrorThatIsClosedOrFullEndsNothing) {
  const auto closed = [] { ::close(STDERR_FILENO); };
  EXPECT_EQ(run_with(closed, {"train", "job.yaml"}).exit_code, 0);
  EXPECT_EQ(run_with(closed, {"train", "absent.yaml"}).exit_code, 2);
  EXPECT_EQ(run_with(closed, {"plan", "job.yaml", "data.files=absent.txt"}).exit_code, 0);
  if (!std::filesystem::exists("/dev/full")) return;
  const auto full = [] { open_as("/dev/full", STDERR_FILENO); };
  EXPECT_EQ(run_with(full, {"train", "job.yaml"}).exit_code, 0);
  EXPECT_EQ(run_with(full, {"train", "absent.yaml"}).exit_code, 2);
  EXPECT_EQ(run_with(full, {"plan", "job.yaml", "data.files=absent.txt"}).exit_code, 0);
}

// Files would get the numbers of closed descriptors, and messages would be written into them.
TEST_F(StoppedRuns, NoFileTakesAClosedStreamsNumber) {
  const Outcome outcome = run_with(
      [] {
        for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(stream);
      },
      {"train", "job.yaml", "log.metrics_file=metrics.jsonl", "checkpoint.directory=run", "--json", "report.json"});
  EXPECT_EQ(outcome.exit_code, 1);  // the report had nowhere to go
  EXPECT_EQ(json::parse(get("report.json"))["losses"].size(), 6u);
  std::ifstream metrics(folder() / "metrics.jsonl");
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines)
    EXPECT_TRUE(json::parse(line, nullptr, false).is_object()) << line;
  EXPECT_EQ(lines, 7);  // with that of the evaluation
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"step-00000006.safetensors"}));
}

}  // namespace
}  // namespace plimsoll::cli_testing
