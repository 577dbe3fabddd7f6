// Tests that times of ops that a run contradicts are measured again, and that the plan reports it.
#include "run/search/step_candidate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/measurement.h"
#include "plan/planner.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "train/prepared_run.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StaleOpTimes : public ::testing::Test {
 protected:
  StaleOpTimes() {
    job_ = tiny_job(folder_);
    job_.precision = Precision::fp32_true;
  }

  /// Writes times as if every op of the job had been timed while the machine did other work.
  void poison() {
    OpTimes times(1, [](const Trace&, const Op&, std::span<const int64_t>) { return 0.5; });
    times.measure(plan_job(job_).plan, machine_cost_model(1), 1000, 1 << 30);
    ASSERT_GT(times.size(), 10u);
    times.save(op_times_file(1));
  }

  static std::string reasons_of(const PlannedJob& planned) {
    std::string text;
    for (const Reason& reason : planned.plan.reasons) text += reason.decision + ": " + reason.why + "\n";
    return text;
  }

  CacheFolder folder_;
  Job job_;
};

TEST(Contradicts, ByHalfEitherWay) {
  EXPECT_FALSE(prediction_failed(1, 1.49));
  EXPECT_TRUE(prediction_failed(1, 1.5));
  EXPECT_FALSE(prediction_failed(1, 0.51));
  EXPECT_TRUE(prediction_failed(1, 0.5));
  EXPECT_FALSE(prediction_failed(0, 1));
  EXPECT_FALSE(prediction_failed(1, 0));
}

TEST(SharedCoresNote, NeedsSlowStepsAndALoadAboveTheCores) {
  EXPECT_EQ(shared_cores_cause(0.1, 0.5, 3.7, 2, 1),
            "other processes probably use the same cores (load average 3.7 on "
            "2 cores); stop them, or set threads to the number of free cores");
  EXPECT_EQ(shared_cores_cause(0.1, 0.5, 2.0, 2, 1), "");   // this run's own threads
  EXPECT_EQ(shared_cores_cause(0.1, 0.5, 3.7, 2, 16), "");  // more threads than cores
  EXPECT_EQ(shared_cores_cause(0.1, 0.12, 3.7, 2, 1), "");
  EXPECT_EQ(shared_cores_cause(0.1, 0.02, 3.7, 2, 1), "");  // faster than predicted
  EXPECT_EQ(shared_cores_cause(0, 0.5, 3.7, 2, 1), "");     // no prediction
  EXPECT_EQ(shared_cores_cause(0.1, 0.5, 0, 2, 1), "");     // the load is not known
}

TEST_F(StaleOpTimes, ARunHasThemMadeAgainAndThePlanSaysIt) {
  poison();
  const PlannedJob poisoned = plan_job(job_);
  EXPECT_GT(poisoned.step_seconds, 10);
  EXPECT_THAT(reasons_of(poisoned), Not(HasSubstr("timed again")));

  TrainObserver nobody;
  const TrainReport report = train_job(job_, nobody);
  EXPECT_THAT(report.prediction_notes, AllOf(HasSubstr("were predicted from timed operators"), HasSubstr("again")));

  const PlannedJob mended = plan_job(job_);
  EXPECT_LT(mended.step_seconds, poisoned.step_seconds / 2);
  EXPECT_THAT(reasons_of(mended), HasSubstr("operators timed again: "));
  // Once.
  EXPECT_THAT(reasons_of(plan_job(job_)), Not(HasSubstr("timed again")));
}

TEST_F(StaleOpTimes, APlanTimesAgainWithinItsAllowance) {
  poison();
  const PlannedJob poisoned = plan_job(job_);
  ASSERT_NE(invalidate_op_times(poisoned, 1, poisoned.step_seconds, poisoned.step_seconds / 3), "");
  PlanTarget target = target_of(job_);
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 0});
  int64_t searches = searches_made();
  plan_once(job_, target);
  const int64_t once = searches_made() - searches;
  searches = searches_made();
  EXPECT_THAT(reasons_of(plan_job(job_, target)),
              AllOf(HasSubstr("not timed again: "),
                    HasSubstr("planning measures for at most 0 s and 256 MiB; plimsoll train times them")));
  EXPECT_EQ(searches_made() - searches, once);  // not planned a second time
  EXPECT_THAT(reasons_of(plan_job(job_)), AllOf(HasSubstr("operators timed again: "), Not(HasSubstr("again: 0"))));
}

TEST_F(StaleOpTimes, WithoutTimedOpsNothingIsSaid) {
  PlannedJob planned = plan_job(job_);
  EXPECT_EQ(invalidate_op_times(planned, 1, planned.step_seconds, 100 * planned.step_seconds), "");
  poison();
  planned = plan_job(job_);
  EXPECT_EQ(invalidate_op_times(planned, 1, planned.step_seconds, planned.step_seconds), "");
  EXPECT_NE(invalidate_op_times(planned, 1, planned.step_seconds, planned.step_seconds / 3), "");
}

}  // namespace
}  // namespace plimsoll
