#include "plimsoll/compare.h"

#include <gtest/gtest.h>

#include "train/tiny_job.h"

namespace plimsoll {
namespace {

// A row that does not fit is planned only. Its predicted time is that of its plan.
TEST(Compare, ARowThatDoesNotFitHasThePredictionOfItsPlan) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.budget.device = 1 << 10;
  CompareOptions options;
  options.steps = 1;
  options.measure_seconds = 0;
  const std::vector<CompareRow> rows = compare_job(job, options);
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(rows.front().fits);  // without the budget of the job
  EXPECT_GT(rows.front().final_loss, 0);
  EXPECT_FALSE(rows.back().fits);
  EXPECT_EQ(rows.back().budget_bytes, 1 << 10);
  EXPECT_GT(rows.back().planned_peak_bytes, 1 << 10);
  EXPECT_GT(rows.back().predicted_step_seconds, 0);
  EXPECT_EQ(rows.back().measured_step_seconds, 0);
}

}  // namespace
}  // namespace plimsoll
