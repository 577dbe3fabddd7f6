#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MonitorCommand : public CliTest {
 protected:
  MonitorCommand() {
    put_tiny_job();
    ::setenv("PLIMSOLL_RUNTIME_DIR", (folder() / "runs").c_str(), 1);
  }
  ~MonitorCommand() override { ::unsetenv("PLIMSOLL_RUNTIME_DIR"); }
};

TEST_F(MonitorCommand, WithoutRunsShowsTheMachine) {
  const Outcome outcome = run({"monitor", "--once"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("memory"), HasSubstr("processors"), HasSubstr("no run of this user")));
}

TEST_F(MonitorCommand, ShowsARunThatIsUnderWay) {
  const pid_t child = start({"train", "job.yaml", "max_steps=1000000", "memory_budget=1GiB"}, "train.txt");
  json seen;
  while (!ended(child) && (seen.empty() || seen["step"] < 1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Outcome outcome = run({"monitor", "--once", "--json", "-"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json shown = json::parse(outcome.out);
    for (const json& each : shown["runs"]) seen = each;
  }
  const Outcome table = run({"monitor", "--once"});
  ::kill(child, SIGTERM);
  finish(child);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen["pid"], child);
  EXPECT_GE(seen["step"], 1);
  EXPECT_EQ(seen["budget_bytes"], int64_t{1} << 30);
  EXPECT_GT(seen["used_bytes"], 0);
  EXPECT_GT(seen["resident_bytes"], 0);
  int64_t roles = 0;
  for (const auto& [role, bytes] : seen["planned_by_role"].items()) roles += bytes.get<int64_t>();
  EXPECT_EQ(roles, seen["planned_bytes"].get<int64_t>());
  EXPECT_THAT(table.out, AllOf(HasSubstr("job.yaml"), HasSubstr("1.00 GiB"), HasSubstr("optimizer state")));
  const json ended = json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"];
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0]["state"], "stopped");
}

TEST_F(MonitorCommand, ShowsARunForAWhileAfterItsEnd) {
  const Outcome trained = run({"train", "job.yaml", "--json", "report.json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const json report = json::parse(get("report.json"));
  const json runs = json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"];
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["state"], "finished");
  EXPECT_EQ(runs[0]["step"], 6);
  EXPECT_EQ(runs[0]["loss"], report["losses"].back());
  EXPECT_EQ(runs[0]["resident_bytes"], nullptr);
  EXPECT_THAT(
      run({"monitor", "--once"}).out,
      AllOf(HasSubstr("job.yaml"), HasSubstr("6 of 6, finished 0:0"), HasSubstr("loss"), Not(HasSubstr(" left")),
            Not(HasSubstr("last update")), HasSubstr("no run of this user is active")));
}

TEST_F(MonitorCommand, ShowsARunThatWasKilledAndNoneThatDidNotStart) {
  EXPECT_EQ(run({"train", "job.yaml", "data.files=absent.txt"}).exit_code, 2);
  EXPECT_TRUE(json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"].empty());
  const pid_t child = start({"train", "job.yaml", "max_steps=1000000", "log.metrics_file=metrics.jsonl"});
  const auto lines = [&] {
    return std::filesystem::exists(folder() / "metrics.jsonl") && !get("metrics.jsonl").empty();
  };
  ASSERT_TRUE(wait_for(child, lines));
  ASSERT_TRUE(wait_for(
      child, [&] { return get("runs/" + std::to_string(child) + ".json").find("training") != std::string::npos; }));
  ::kill(child, SIGKILL);
  finish(child);
  const json runs = json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"];
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["pid"], child);
  EXPECT_EQ(runs[0]["state"], "failed");
  EXPECT_GE(runs[0]["step"], 1);
}

TEST_F(MonitorCommand, ShowsEveryRank) {
  const pid_t child = start({"train", "job.yaml", "max_steps=1000000", "--devices", "2"}, "train.txt");
  json seen;
  while (!ended(child) && (seen.empty() || seen["ranks"].empty())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Outcome outcome = run({"monitor", "--once", "--json", "-"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json shown = json::parse(outcome.out);
    ASSERT_LE(shown["runs"].size(), 1u) << "ranks are no runs of their own";
    for (const json& each : shown["runs"]) seen = each;
  }
  // The second status at the earliest: by then exchanges were made.
  while (!ended(child) && seen["ranks"][1]["exchange_seconds"] == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const json shown = json::parse(run({"monitor", "--once", "--json", "-"}).out);
    for (const json& each : shown["runs"]) seen = each;
  }
  const Outcome table = run({"monitor", "--once"});
  ::kill(child, SIGTERM);
  finish(child);
  ASSERT_FALSE(seen.empty());
  ASSERT_EQ(seen["ranks"].size(), 2u);
  EXPECT_EQ(seen["ranks"][0]["pid"], seen["pid"]);
  EXPECT_NE(seen["ranks"][1]["pid"], seen["pid"]);
  for (size_t r = 0; r < 2; ++r) {
    const json& rank = seen["ranks"][r];
    EXPECT_EQ(rank["rank"], r);
    EXPECT_EQ(rank["host"], seen["ranks"][0]["host"]);
    EXPECT_EQ(rank["planned_bytes"], seen["planned_bytes"]);
    EXPECT_GT(rank["used_bytes"], 0);
    EXPECT_LE(rank["used_bytes"], rank["planned_bytes"]);
    EXPECT_GT(rank["exchange_seconds"], 0);
    EXPECT_GT(rank["exchange_share"], 0);
    EXPECT_LE(rank["exchange_share"], 1);
  }
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("2 on 1 host, "), HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("in exchanges")));
}

// A status as a run writes it, by this process.
TEST_F(MonitorCommand, OneRankHasNoRowsOfRanksAndOldRunsAreShown) {
  std::filesystem::create_directory(folder() / "runs");
  std::filesystem::permissions(folder() / "runs", std::filesystem::perms::owner_all);
  std::string stat = get_file("/proc/self/stat");
  std::istringstream rest(stat.substr(stat.rfind(')') + 1));
  std::string start;
  for (int field = 3; field <= 22; ++field) rest >> start;
  json status = {{"pid", ::getpid()}, {"process_start", std::stoll(start)}, {"job", "old.yaml"}};
  const std::string file = "runs/" + std::to_string(::getpid()) + ".json";
  put(file, status.dump());
  EXPECT_THAT(run({"monitor", "--once"}).out, AllOf(HasSubstr("old.yaml"), Not(HasSubstr("rank"))));
  for (int rank = 0; rank < 3; ++rank)
    status["ranks"].push_back({{"host", rank < 2 ? "north" : "south\n"},
                               {"pid", 100 + rank},
                               {"planned_bytes", 4 << 20},
                               {"used_bytes", (rank + 1) << 20},
                               {"exchange_seconds", 0.5 * rank},
                               {"train_seconds", 4}});
  put(file, status.dump());
  EXPECT_THAT(run({"monitor", "--once"}).out,
              AllOf(HasSubstr("3 on 2 hosts, 0 % to 25 % of their time in exchanges"),
                    HasSubstr("north: 2.00 MiB of 4.00 MiB (50 %), in exchanges 500 ms (12 %)"),
                    HasSubstr("south?: 3.00 MiB of 4.00 MiB (75 %), in exchanges 1.00 s (25 %)")));
}

TEST_F(MonitorCommand, RefusesWhatDoesNotGoTogether) {
  EXPECT_EQ(run({"monitor", "--json", "-"}).exit_code, 2);
  EXPECT_EQ(run({"monitor", "--interval", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace plimsoll::cli_testing
