// Tests that the verdict before the fastest plan is found is the verdict of the answer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "rounds.h"
#include "train/random_jobs.h"

namespace plimsoll {
namespace {

using testing::RandomJobs;

TEST(EarlyVerdict, NeverContradictsTheAnswer) {
  RandomJobs jobs(31);
  const PlanTarget device = target_of(require_device("rtx4090"));
  int fitted = 0, misfitted = 0;
  for (int round = 0; round < testing::rounds(12); ++round) {
    const std::string text = jobs.text(fmt::format(
        "batch_size: {}\nmicro_batch_size: auto\nprecision: {}\nupdate_in_backward: {}\n", jobs.pick({"1", "4", "6"}),
        jobs.pick({"auto", "32-true", "bf16-mixed", "bf16-true"}), jobs.pick({"auto", "off"})));
    SCOPED_TRACE(text);
    const Job job = parse_job(text, "random", ".");
    PlanTarget target = device;
    target.budget.host = jobs.number({0, 0, 1 << 20});
    target.budget.device = 1;
    const int64_t least = plan_job(job, target).minimum_budget_bytes;
    for (const int64_t budget : {least - 1, least, least + least / 50, 2 * least}) {
      target.budget.device = budget;
      std::vector<int64_t> enough;
      const PlannedJob planned = plan_job(job, target, {.on_fit = [&](int64_t bytes) { enough.push_back(bytes); }});
      ASSERT_EQ(enough.size(), planned.plan.fits ? 1u : 0u) << budget;
      for (const int64_t bytes : enough) {
        EXPECT_LE(bytes, budget);
        EXPECT_GE(bytes, planned.minimum_budget_bytes);
      }
      (planned.plan.fits ? fitted : misfitted) += 1;
    }
  }
  EXPECT_GT(fitted, testing::rounds(12));
  EXPECT_GT(misfitted, 0);
}

// There is nothing to fit into.
TEST(EarlyVerdict, IsNotGivenWithoutABudget) {
  RandomJobs jobs(32);
  PlanTarget target = target_of(require_device("rtx4090"));
  target.budget.device.reset();
  bool told = false;
  plan_job(parse_job(jobs.text("batch_size: 4\n"), "random", "."), target, {.on_fit = [&](int64_t) { told = true; }});
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace plimsoll
