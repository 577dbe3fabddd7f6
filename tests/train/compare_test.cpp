#include "plimsoll/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// Each row has the savings of its name. The planner's row has those of the job.
TEST(Compare, RowsHaveTheSettingsOfTheirNames) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.precision = Precision::fp32_true;
  CompareOptions options;
  options.steps = 1;
  options.measure_seconds = 0;
  std::vector<std::string> rows;
  for (const CompareRow& row : compare_job(job, options)) {
    EXPECT_TRUE(row.fits) << row.name;
    rows.push_back(row.name + ": " + row.settings.substr(0, row.settings.find(',')));
  }
  EXPECT_THAT(rows,
              ::testing::ElementsAre("float32: 32-true", "+ mixed precision: bf16-mixed", "+ checkpointing: bf16-mixed",
                                     "+ accumulation: bf16-mixed", "+ offload: bf16-mixed", "+ streaming: bf16-mixed",
                                     "+ 8-bit state, no offload: bf16-mixed", "+ bfloat16 weights: bf16-true",
                                     "+ 8-bit sums of gradients: bf16-true", "updates in backward instead: bf16-true",
                                     "planner's choice: 32-true"));
}

}  // namespace
}  // namespace plimsoll
