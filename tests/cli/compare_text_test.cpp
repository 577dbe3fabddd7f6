#include "cli/result_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

CompareRow row(const char* name, int64_t mebibytes, double milliseconds) {
  CompareRow row;
  row.name = name;
  row.settings = "bf16-mixed, micro batch 2 x 2";
  row.planned_peak_bytes = row.measured_peak_bytes = mebibytes * MiB;
  row.measured_step_seconds = row.predicted_step_seconds = milliseconds / 1e3;
  row.final_loss = 5.5;
  return row;
}

std::vector<CompareRow> four_rows() {
  return {row("float32", 400, 10), row("+ checkpointing", 300, 14), row("+ offload", 100, 30),
          row("planner's choice", 200, 12)};
}

TEST(CompareText, NamesTheSmallestAndTheFastestRow) {
  std::vector<CompareRow> rows = four_rows();
  rows[2].measured_host_bytes = 50 * MiB;
  EXPECT_EQ(compare_summary(rows, 0),
            "Of the rows that fit, '+ offload' is the smallest (100 MiB and 50.0 MiB of host memory, 0.25 of row 1; "
            "30.0 ms a step), and 'float32' is the fastest (400 MiB, 1.00 of row 1; 10.0 ms a step).");
}

TEST(CompareText, KeepsToTheBudgetOfTheJob) {
  EXPECT_THAT(compare_summary(four_rows(), 250 * MiB),
              AllOf(HasSubstr("Within the budget of 250 MiB, '+ offload' is the smallest ("),
                    HasSubstr("'planner's choice' is the fastest (200 MiB, 0.50 of row 1; 12.0 ms a step).")));
  EXPECT_EQ(compare_summary(four_rows(), 150 * MiB),
            "Within the budget of 150 MiB, '+ offload' is the smallest and the fastest (100 MiB, 0.25 of row 1; "
            "30.0 ms a step).");
  EXPECT_EQ(compare_summary(four_rows(), 50 * MiB),
            "No row fits the budget of 50.0 MiB; the smallest is '+ offload', with a planned peak of 100 MiB.");
}

TEST(CompareText, RowsThatWereNotTrainedAreNotNamed) {
  std::vector<CompareRow> rows = four_rows();
  rows[0].fits = rows[2].fits = false;
  EXPECT_EQ(compare_summary(rows, 0),
            "Of the rows that fit, 'planner's choice' is the smallest and the fastest (200 MiB; 12.0 ms a step).");
  for (CompareRow& each : rows) each.fits = false;
  EXPECT_EQ(compare_summary(rows, 0), "No row fits; the smallest is '+ offload', with a planned peak of 100 MiB.");
  EXPECT_EQ(compare_summary({}, 0), "");
}

TEST(CompareText, TheHeaderSaysAfterHowManyStepsTheLossesWereTaken) {
  EXPECT_THAT(compare_table(four_rows(), 3, {}), HasSubstr("loss, step 3  settings\n"));
  std::vector<CompareRow> rows = four_rows();
  rows[0].name = "updates in backward instead";
  rows[0].measured_peak_bytes = rows[0].planned_peak_bytes = 1000 * MiB + MiB / 2;  // the widest figures
  rows[0].measured_step_seconds = 0.1234;
  for (const int64_t steps : {3, 100, 100000}) {
    const std::string text = compare_table(rows, steps, Screen{.columns = 80});
    for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
      EXPECT_LE(display_width(text.substr(begin, text.find('\n', begin) - begin)), 80u) << text;
    EXPECT_THAT(text, HasSubstr("loss, step " + std::to_string(steps)));
  }
  EXPECT_THAT(compare_table(rows, 3, Screen{.columns = 80}), Not(HasSubstr("Left out")));
}

}  // namespace
}  // namespace plimsoll::cli
