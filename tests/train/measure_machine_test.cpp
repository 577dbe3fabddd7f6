// The plan that is made after a machine was measured for a job uses measured times only.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plimsoll/machine.h"
#include "plimsoll/plan_job.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

// Rates of kinds of ops can be too good for a job's ops. A micro batch whose ops were not timed is then predicted to be
// faster than the one whose ops were.
TEST(MeasureMachine, TimesTheMicroBatchThatIsChosenByItsTimes) {
  const CacheFolder folder;
  Job job = tiny_job(folder, 64);
  job.precision = Precision::fp32_true;
  job.batch_size = 16;
  job.micro_batch_size.reset();
  job.gradient_accumulation_steps.reset();
  inspect_machine(static_cast<int>(job.threads));
  // The name of the file depends on the instruction masks.
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "plimsoll"))
    if (entry.path().filename().string().starts_with("rates-1-threads")) file = entry.path();
  ASSERT_FALSE(file.empty());
  nlohmann::json rates = nlohmann::json::parse(get_file(file));
  rates["overhead_seconds"] = 1e-12;
  for (nlohmann::json& kind : rates["rates"])
    for (nlohmann::json& type : kind) type = {1e18, 1e18};
  put_file(file, rates.dump());

  // A smaller micro batch is considered if the largest one fits only with recomputation.
  const PlannedJob unlimited = plan_job(job);
  job.budget.device = (unlimited.plan.peak_bytes + unlimited.minimum_budget_bytes) / 2;
  const HotOps ops = hot_ops(plan_by_timed_ops(job, 60));
  EXPECT_GT(ops.seconds, 0);
  EXPECT_DOUBLE_EQ(ops.timed_seconds, ops.seconds);
}

}  // namespace
}  // namespace plimsoll
