#include <signal.h>
#include <sys/resource.h>

#include <cmath>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainCommand : public CliTest {
 protected:
  TrainCommand() { put_tiny_job(); }

  std::vector<json> metrics() const {
    std::vector<json> lines;
    std::ifstream stream(folder() / "metrics.jsonl");
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(TrainCommand, JsonHasTheAgreedKeysAndAddsUp) {
  const Outcome outcome = run({"train", "job.yaml", "--json", "-", "memory_budget=1GiB"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  for (const char* key : {"planned_peak_bytes", "measured_peak_bytes", "breakdown", "steps", "step_seconds",
                          "predicted_step_seconds", "data_wait_seconds", "units_per_second", "unit", "losses",
                          "arena_waste", "resident_bytes", "steps_skipped", "evaluation_loss", "fits", "device_work"}) {
    EXPECT_TRUE(report.contains(key)) << key;
  }
  EXPECT_EQ(report["device_work"]["captures"], false);
  EXPECT_GT(report["device_work"]["single_ops"], 0);
  EXPECT_EQ(report["fits"], true);
  EXPECT_EQ(report["unit"], "tokens");
  EXPECT_EQ(report["steps"], 6);
  EXPECT_EQ(report["run_length"]["steps"], 6);
  EXPECT_EQ(report["steps_skipped"], 0);
  ASSERT_EQ(report["losses"].size(), 6u);
  for (const json& loss : report["losses"]) EXPECT_TRUE(std::isfinite(loss.get<double>()));
  EXPECT_EQ(sum_of(report["breakdown"]["planned"]), report["planned_peak_bytes"].get<int64_t>());
  // The run uses the plan that `plan` shows.
  const json plan = json::parse(run({"plan", "job.yaml", "memory_budget=1GiB", "--json", "-"}).out);
  EXPECT_EQ(report["plan_hash"], plan["plan_hash"]);
  EXPECT_EQ(sum_of(report["breakdown"]["measured"]), report["measured_peak_bytes"].get<int64_t>());
  EXPECT_LE(report["measured_peak_bytes"], int64_t{1} << 30);
  EXPECT_GT(report["resident_bytes"], 0);
  EXPECT_TRUE(report["evaluation_loss"].is_number());
}

// A list of 4 000 000 000 samples would take 16 GB for each epoch.
TEST_F(TrainCommand, BillionsOfShuffledSamplesTakeLittleMemory) {
  const Outcome outcome = run({"train", "job.yaml", "data.type=synthetic", "data.samples=4000000000",
                               "data.shuffle=true", "model.vocab_size=64", "max_steps=3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("evaluation loss"));
  EXPECT_LT(outcome.resident_bytes, int64_t{1} << 30);
}

TEST_F(TrainCommand, SaysWhatWasPlannedAndWhatWasUsed) {
  const Outcome outcome = run({"train", "job.yaml", "memory_budget=1GiB"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("planned"), HasSubstr("used"), HasSubstr("optimizer state"),
                                 HasSubstr("total"), HasSubstr("1.00 GiB"), HasSubstr("Resident memory"),
                                 HasSubstr("median step"), HasSubstr("tokens/s")));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("fits: "), HasSubstr("micro batch 2 x 2"), HasSubstr("\ntrain "), HasSubstr("loss "),
                    HasSubstr("6/6"), HasSubstr("evaluation loss"), Not(HasSubstr("\x1b"))));
}

// Ops run with guarded surroundings: the same bits, and a line with the result.
TEST_F(TrainCommand, CheckRunsEachOpWithGuardedSurroundings) {
  const Arguments plain = {"train", "job.yaml", "memory_budget=1GiB", "--json", "-"};
  Arguments checking = plain;
  checking.emplace_back("--check");
  const Outcome unchecked = run(plain), checked = run(checking);
  ASSERT_EQ(unchecked.exit_code, 0) << unchecked.err;
  ASSERT_EQ(checked.exit_code, 0) << checked.err;
  const json expected = json::parse(unchecked.out), report = json::parse(checked.out);
  EXPECT_EQ(report["losses"], expected["losses"]);
  EXPECT_EQ(report["evaluation_loss"], expected["evaluation_loss"]);
  EXPECT_EQ(report["plan_hash"], expected["plan_hash"]);
  EXPECT_EQ(report["measured_peak_bytes"], expected["measured_peak_bytes"]);
  EXPECT_THAT(checked.err, AllOf(HasSubstr("checked: "), HasSubstr("runs of ops stayed within their planned places")));
  EXPECT_THAT(unchecked.err, Not(HasSubstr("checked: ")));
  EXPECT_THAT(run({"train", "--help"}).out, AllOf(HasSubstr("--check"), HasSubstr("device=cpu: run each op twice")));
}

TEST_F(TrainCommand, CheckIsForTheCpu) {
  expect_refusal(run({"train", "job.yaml", "device=cuda", "--check"}), 2,
                 AllOf(HasSubstr("--check: device is cuda"), HasSubstr("set device=cpu")));
  expect_refusal(run({"train", "job.yaml", "process_budget=2GiB", "--check"}), 2,
                 AllOf(HasSubstr("--check: process_budget is set"), HasSubstr("remove one")));
}

TEST_F(TrainCommand, WritesMetricsAndACheckpoint) {
  const Outcome outcome =
      run({"train", "job.yaml", "log.metrics_file=metrics.jsonl", "checkpoint.directory=run", "--json", "report.json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::is_empty(folder() / "run"));
  EXPECT_THAT(outcome.err, HasSubstr("saved"));
  const json report = json::parse(get("report.json"));
  std::vector<double> losses;
  for (const json& line : metrics())
    if (line.contains("loss")) losses.push_back(line["loss"]);
  ASSERT_EQ(losses.size(), report["losses"].size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], report["losses"][i].get<double>(), 1e-6) << i;
}

TEST_F(TrainCommand, ProfilesTheStepsAfterTheFirst) {
  const Outcome outcome = run({"train", "job.yaml", "--profile", "profile.json", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("profile of 3 steps in profile.json"));
  EXPECT_EQ(json::parse(outcome.out)["steps_profiled"], 3);
  const json profile = json::parse(get("profile.json"));
  std::vector<std::string> steps;
  size_t ops = 0;
  for (const json& event : profile["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "step") steps.push_back(event["name"]);
    ops += event["ph"] == "X" && event["cat"] == "forward";
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"step 2", "step 3", "step 4"}));
  EXPECT_GT(ops, 3u);
  const Outcome fewer = run({"train", "job.yaml", "--profile", "profile.json", "--profile-steps", "1"});
  EXPECT_THAT(fewer.err, HasSubstr("profile of 1 step in"));
}

TEST_F(TrainCommand, AProfileThatCannotBeIsRefusedBeforeTheTraining) {
  expect_refusal(run({"train", "job.yaml", "--profile", "missing/profile.json"}), 2,
                 AllOf(HasSubstr("missing/profile.json"), HasSubstr("the folder missing does not exist")));
  expect_refusal(run({"train", "job.yaml", "--profile", "profile.json", "max_steps=1"}), 2,
                 HasSubstr("max_steps is 1"));
  expect_refusal(run({"train", "job.yaml", "--profile-steps", "2"}), 2, HasSubstr("--profile"));
  expect_refusal(run({"train", "job.yaml", "--profile", "p.json", "--profile-steps", "0"}), 2,
                 HasSubstr("--profile-steps"));
  expect_refusal(run({"train", "job.yaml", "--profile", ""}), 2, HasSubstr("--profile"));
  EXPECT_FALSE(std::filesystem::exists(folder() / "profile.json"));
}

TEST_F(TrainCommand, ResumesWhereItStopped) {
  ASSERT_EQ(run({"train", "job.yaml", "checkpoint.directory=run", "max_steps=3", "scheduler.name=constant"}).exit_code,
            0);
  const Outcome rest =
      run({"train", "job.yaml", "checkpoint.directory=run", "scheduler.name=constant", "--json", "rest.json"});
  ASSERT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("resumed from"));
  ASSERT_EQ(run({"train", "job.yaml", "scheduler.name=constant", "--json", "whole.json"}).exit_code, 0);
  const json losses = json::parse(get("rest.json"))["losses"], whole = json::parse(get("whole.json"))["losses"];
  ASSERT_EQ(losses.size(), 3u);
  ASSERT_EQ(whole.size(), 6u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(losses[i], whole[i + 3]) << i;
}

TEST_F(TrainCommand, TooSmallABudgetIsAnAnswer) {
  const Outcome outcome = run({"train", "job.yaml", "memory_budget=64KiB", "log.metrics_file=metrics.jsonl"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not fit"), HasSubstr("Largest buffers at the peak"),
                                 HasSubstr("run 'plimsoll plan' with the same job file")));
  EXPECT_TRUE(metrics().empty());

  const Outcome as_json = run({"train", "job.yaml", "memory_budget=64KiB", "--json", "-"});
  EXPECT_EQ(as_json.exit_code, 3);
  EXPECT_THAT(as_json.err, HasSubstr("does not fit"));
  const json report = json::parse(as_json.out);
  EXPECT_EQ(report["fits"], false);
  EXPECT_EQ(report["budget_bytes"], 64 << 10);
  EXPECT_GT(report["minimum_budget_bytes"], 64 << 10);
  EXPECT_TRUE(report["losses"].empty());
}

TEST_F(TrainCommand, AMissingCorpusIsSaidByName) {
  std::filesystem::remove(folder() / "corpus.txt");
  const Outcome outcome = run({"train", "job.yaml"});
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(1, 2));
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("plimsoll: "), HasSubstr("corpus.txt")));
}

TEST_F(TrainCommand, InterruptedItSavesAndReports) {
  const pid_t child = start({"train", "job.yaml", "max_steps=100000000", "log.metrics_file=metrics.jsonl",
                             "checkpoint.directory=run", "--json", "report.json"});
  while (get("metrics.jsonl").empty() && !ended(child)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, SIGINT) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("saved"));
  EXPECT_THAT(outcome.out, HasSubstr("Memory at the peak"));
  const json report = json::parse(get("report.json"));
  EXPECT_EQ(report["stopped"], true);
  EXPECT_GT(report["steps"], 0);
  EXPECT_FALSE(std::filesystem::is_empty(folder() / "run"));
}

// Before training, and by the folder's content.
TEST_F(TrainCommand, ADiskThatCannotBeHadEndsTheRunAtOnce) {
  const json whole = json::parse(run({"plan", "job.yaml", "--json", "-"}).out);
  const std::string half = "memory_budget=" + std::to_string(whole["peak_bytes"].get<int64_t>() / 2);
  const Outcome refused = run({"train", "job.yaml", half, "disk_budget=1GiB", "disk_path=nowhere"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("nowhere"), HasSubstr("disk_path")));
  const Outcome trained = run({"train", "job.yaml", half, "disk_budget=1GiB", "--json", "report.json"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  const json report = json::parse(get("report.json"));
  EXPECT_GT(report["planned_disk_bytes"], 0);
  EXPECT_EQ(report["planned_disk_bytes"], report["measured_disk_bytes"]);
}

using ::testing::AllOf;
using ::testing::HasSubstr;

class FullDisk : public CliTest {
 protected:
  FullDisk() { put_tiny_job(); }

  /// Trains with a limit for each file that a checkpoint does not fit into.
  Outcome train_on_a_full_disk() const {
    return run_with(
        [] {
          const rlimit limit{64 << 10, 64 << 10};
          ::setrlimit(RLIMIT_FSIZE, &limit);
        },
        {"train", "job.yaml", "checkpoint.directory=run", "checkpoint.every_n_steps=2", "--json", "report.json"});
  }
};

TEST_F(FullDisk, TheReportSaysThatNoCheckpointIsWhole) {
  const Outcome outcome = train_on_a_full_disk();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the checkpoint of step 2, with which the run ends"),
                                 HasSubstr("no earlier one was saved"),
                                 HasSubstr("the run ended after step 2, but some outputs could not be written")));
  const json report = json::parse(get("report.json"));
  EXPECT_EQ(report["steps"], 2);
  EXPECT_EQ(report["stopped"], true);
  EXPECT_EQ(report["losses"].size(), 2u);
}

TEST_F(FullDisk, TheReportNamesTheWholeCheckpoint) {
  ASSERT_EQ(run({"train", "job.yaml", "checkpoint.directory=run", "max_steps=2"}).exit_code, 0);
  const Outcome outcome = train_on_a_full_disk();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("the checkpoint of step 4"), HasSubstr("step-00000002.safetensors is whole")));
  EXPECT_EQ(json::parse(get("report.json"))["steps"], 4);
}

using ::testing::AnyOf;
using ::testing::HasSubstr;

class StartAdvice : public CliTest {};

// Activations of a pinned micro batch that no machine has. The end of the search depends on how busy this one is.
TEST_F(StartAdvice, AMachineWithLessMemoryThanTheBudgetIsOfferedChanges) {
  put("huge.yaml",
      "memory_budget: 4000GiB\n"
      "max_steps: 2\n"
      "batch_size: 262144\n"
      "micro_batch_size: 262144\n"
      "gradient_checkpointing: false\n"
      "precision: 32-true\n"
      "model: {hidden_size: 64, num_layers: 4, num_heads: 2, vocab_size: 256}\n"
      "data: {type: synthetic, sequence_length: 512}\n");
  const Outcome outcome = run({"train", "huge.yaml"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the job needs at least "));
  EXPECT_THAT(outcome.out, AnyOf(HasSubstr("Changes that would fit"), HasSubstr("The search for changes that fit")));
  // A change is planned for the memory that there is, so it is typed with that budget.
  EXPECT_THAT(outcome.out, HasSubstr("memory_budget="));
}

}  // namespace
}  // namespace plimsoll::cli_testing
