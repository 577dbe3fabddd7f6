#include <signal.h>

#include <chrono>
#include <thread>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  for (int i = 0; i < 200 && (seen.empty() || seen["step"] < 1); ++i) {
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
  EXPECT_TRUE(json::parse(run({"monitor", "--once", "--json", "-"}).out)["runs"].empty());
}

TEST_F(MonitorCommand, RefusesWhatDoesNotGoTogether) {
  EXPECT_EQ(run({"monitor", "--json", "-"}).exit_code, 2);
  EXPECT_EQ(run({"monitor", "--interval", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace plimsoll::cli_testing
