// Tests process_budget: the kernel's count of the process beside the budget and the plan, in training, evaluation,
// saving and resuming, and the refusal of a budget that is too small.
#include <regex>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

class ProcessBudget : public CliTest {
 protected:
  ProcessBudget() {
    put_tiny_job();
    // Far above what the plan is: then a process that exceeds its plan is seen.
    arguments_ = {"train",        "job.yaml",           "model.hidden_size=192", "model.num_layers=4",
                  "batch_size=8", "memory_budget=auto", "max_steps=4",           "eval_every_n_steps=2",
                  "--json",       "report.json"};
  }

  Outcome train(const std::string& budget, const Arguments& more = {}) {
    Arguments all = arguments_;
    all.insert(all.end(), {"--process-budget", budget});
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  json process() const { return json::parse(get("report.json")).at("process"); }

  Arguments arguments_;
};

TEST_F(ProcessBudget, TheProcessTakesWhatWasPlanned) {
  ASSERT_EQ(train("4GiB").exit_code, 0);
  const int64_t least = process().at("minimum_bytes");
  const std::string budget = std::to_string(least + 6 * kMiB);
  for (const Arguments& more :
       {Arguments{"checkpoint.directory=run"}, Arguments{"checkpoint.directory=run", "max_steps=6"}}) {
    const Outcome outcome = train(budget, more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Resident memory of the process"), HasSubstr("process budget")));
    const auto planned = process().at("planned_bytes").get<int64_t>();
    EXPECT_LE(planned, std::stoll(budget));
    EXPECT_LE(outcome.resident_bytes, std::stoll(budget) * 102 / 100);
    EXPECT_NEAR(static_cast<double>(outcome.resident_bytes), static_cast<double>(planned),
                std::max(8.0 * kMiB, 0.03 * static_cast<double>(planned)));
  }
}

TEST_F(ProcessBudget, TooSmallABudgetIsRefusedWithOneThatSuffices) {
  const Outcome refused = train("32MiB");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("process_budget is 32.0 MiB"), HasSubstr("set process_budget to at least")));
  std::smatch advised;
  ASSERT_TRUE(std::regex_search(refused.err, advised, std::regex("at least ([0-9.]+) MiB")));
  const Outcome next = train(advised[1].str() + "MiB");
  if (next.exit_code == 3) {  // planning is possible with it, and then the plan names the smallest
    EXPECT_THAT(next.out, HasSubstr("does not fit"));
    EXPECT_EQ(train(std::to_string(process().at("minimum_bytes").get<int64_t>())).exit_code, 0);
  } else {
    EXPECT_EQ(next.exit_code, 0) << next.err;
  }
}

TEST_F(ProcessBudget, WrongValuesAreRefused) {
  for (const char* value : {"process_budget=0", "process_budget=little", "process_budget=[1]"})
    expect_refusal(run({"train", "job.yaml", value}), 2, HasSubstr("process_budget"));
}

TEST_F(ProcessBudget, APlanNamesTheProcess) {
  const Outcome planned = run({"plan", "job.yaml", "process_budget=4GiB", "--json", "plan.json"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("process budget"));
  EXPECT_GT(json::parse(get("plan.json")).at("process").at("planned_bytes").get<int64_t>(), 50 * kMiB);
  const Outcome elsewhere = run({"plan", "job.yaml", "process_budget=1MiB", "--gpu", "h100-sxm"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("process_budget"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
