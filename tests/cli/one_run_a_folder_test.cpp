// Tests that two runs do not write to one folder or one file of metrics.
#include <signal.h>

#include <array>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OneRunAFolder : public CliTest {
 protected:
  OneRunAFolder() { put_tiny_job(); }
  ~OneRunAFolder() override {
    if (first_ <= 0) return;
    ::kill(first_, SIGKILL);
    int status = 0;
    ::waitpid(first_, &status, 0);
  }

  /// Starts a run without end in folder `run`, with its metrics in m.jsonl, and its messages separate.
  void start_first() {
    first_ = start({"train", "job.yaml", "max_steps=100000000", "log.metrics_file=m.jsonl", "checkpoint.directory=run",
                    "checkpoint.every_n_steps=1000", "checkpoint.keep=0"},
                   "first.txt", [] { open_as("first-err.txt", STDERR_FILENO); });
    ASSERT_TRUE(wait_for(first_, [&] { return !get("m.jsonl").empty(); })) << get("first-err.txt");
  }

  void end_first(int signal) {
    ::kill(first_, signal);
    int status = 0;
    ASSERT_EQ(::waitpid(first_, &status, 0), first_);
    first_ = 0;
  }

  bool has(const std::string& name) const { return std::filesystem::exists(folder() / name); }

  auto names_the_first() const {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return AllOf(
        HasSubstr("in use by another run (process " + std::to_string(first_) + " on " + host.data() + ", since 2"),
        HasSubstr(" UTC, job.yaml)"));
  }

  pid_t first_ = 0;
};

TEST_F(OneRunAFolder, TheSecondIsToldWhoHoldsTheCheckpoints) {
  start_first();
  const auto added = new_files([&] {
    const auto line = AllOf(HasSubstr("checkpoint.directory: run is "), names_the_first());
    expect_refusal(run({"train", "job.yaml", "checkpoint.directory=run"}), 2, line);
    expect_refusal(run({"train", "job.yaml", "checkpoint.directory=./run/../run/"}), 2, names_the_first());
    // The check comes before that of the budget.
    expect_refusal(run({"train", "job.yaml", "checkpoint.directory=run", "memory_budget=64KiB"}), 2, line);
  });
  EXPECT_THAT(added, IsEmpty());
  EXPECT_EQ(run({"train", "job.yaml", "checkpoint.directory=other"}).exit_code, 0);
}

TEST_F(OneRunAFolder, TheSecondIsToldWhoHoldsTheMetrics) {
  start_first();
  const auto line = AllOf(HasSubstr("log.metrics_file: m.jsonl is "), names_the_first());
  expect_refusal(run({"train", "job.yaml", "log.metrics_file=m.jsonl"}), 2, line);
  // By another name too; and the files that were made for the rejected run are removed again.
  std::filesystem::create_symlink("m.jsonl", folder() / "link.jsonl");
  const auto added = new_files([&] {
    expect_refusal(run({"train", "job.yaml", "log.metrics_file=link.jsonl", "checkpoint.directory=a/b"}), 2,
                   names_the_first());
  });
  EXPECT_THAT(added, IsEmpty());
}

TEST_F(OneRunAFolder, AnExportReadsWhileItTrains) {
  start_first();
  ASSERT_TRUE(wait_for(first_, [&] { return has("run/step-00001000.safetensors"); }));
  const Outcome outcome = run({"export", "job.yaml", "checkpoint.directory=run", "--out", "model.safetensors"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(ended(first_));
}

TEST_F(OneRunAFolder, WhatAKilledRunLeavesIsInNobodysWay) {
  start_first();
  end_first(SIGKILL);
  EXPECT_TRUE(has("run/.lock"));
  EXPECT_TRUE(has(".m.jsonl.lock"));
  std::filesystem::remove(folder() / "m.jsonl");
  const Outcome outcome =
      run({"train", "job.yaml", "checkpoint.directory=run", "log.metrics_file=m.jsonl", "checkpoint.resume=auto"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(has("run/.lock"));
  EXPECT_FALSE(has(".m.jsonl.lock"));
}

TEST_F(OneRunAFolder, AStoppedRunGivesTheFolderBack) {
  start_first();
  end_first(SIGINT);
  EXPECT_FALSE(has("run/.lock"));
  EXPECT_FALSE(has(".m.jsonl.lock"));
  EXPECT_TRUE(has("m.jsonl"));
}

TEST_F(OneRunAFolder, ARunThatDoesNotFitLeavesNothing) {
  const auto added = new_files([&] {
    const Outcome outcome = run(
        {"train", "job.yaml", "memory_budget=64KiB", "checkpoint.directory=a/b/c", "log.metrics_file=a/b/c/m.jsonl"});
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  });
  EXPECT_THAT(added, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::cli_testing
