// Tests that a fixed choice of 16 bits that costs time is reported, and that an open choice gets the faster type.
#include "run/search/open_choices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/devices.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A machine whose matmuls of 16 bits take `speed` times as long as float32's: nothing else takes time.
PlanTarget fake(double speed) {
  PlanTarget target;
  target.budget.device = int64_t{1} << 30;
  target.cost.bfloat16_matmul_speed = target.cost.float16_matmul_speed = speed;
  for (auto& kind : target.cost.rates) kind.fill({0, 1e12});
  for (const OpKind kind : {OpKind::product, OpKind::loss_head, OpKind::attention}) {
    target.cost.rate(kind, DType::float32).flops = 1e9;
    target.cost.rate(kind, DType::bfloat16).flops = target.cost.rate(kind, DType::float16).flops = 1e9 * speed;
  }
  target.cost.overhead_seconds = 1e-9;
  return target;
}

class SlowMatmul : public ::testing::Test {
 protected:
  SlowMatmul() : job_(tiny_job(folder_)) {}
  TempFolder folder_;
  Job job_;
};

TEST_F(SlowMatmul, WhoPinsThemIsToldBothTimes) {
  for (const auto& [precision, name] : {std::pair{Precision::bf16_mixed, "bf16-mixed"},
                                        {Precision::fp16_mixed, "16-mixed"},
                                        {Precision::bf16_true, "bf16-true"}}) {
    job_.precision = precision;
    const PlannedJob slow = plan_job(job_, fake(0.1));
    EXPECT_EQ(slow.settings.precision, precision);
    job_.precision = Precision::fp32_true;
    const PlannedJob full = plan_job(job_, fake(0.1));
    EXPECT_THAT(slow.settings.slow_matmul_note, AllOf(HasSubstr(name), HasSubstr("0.1 times the speed"),
                                                      HasSubstr(fmt::format("{:.3g} s", slow.step_seconds)),
                                                      HasSubstr(fmt::format("32-true {:.3g} s", full.step_seconds))));
    EXPECT_EQ(slow.settings.slow_matmul_note.find('\n'), std::string::npos);
    EXPECT_EQ(slow.plan.reasons.back().decision, fmt::format("precision: {}", name));
    EXPECT_EQ(full.settings.slow_matmul_note, "");
  }
}

TEST_F(SlowMatmul, WhereTheyAreFastNothingIsSaid) {
  job_.precision = Precision::bf16_mixed;
  EXPECT_EQ(plan_job(job_, fake(2)).settings.slow_matmul_note, "");
  PlanTarget unknown = fake(0.1);
  unknown.cost.bfloat16_matmul_speed = 0;
  EXPECT_EQ(plan_job(job_, unknown).settings.slow_matmul_note, "");
}

// A V100 computes bfloat16 in float32: the plan reports it, and the time with float16.
TEST_F(SlowMatmul, WhoPinsBfloat16WhereThereIsNoneIsTold) {
  PlanTarget target = target_of(require_device("v100-sxm2-16gb"));
  // A model this small is all launches; without them products show.
  target.cost.overhead_seconds = 0;
  for (auto& kind : target.cost.rates)
    for (OpRate& rate : kind) rate.bytes = 1e15;
  job_.precision = Precision::fp16_mixed;
  const PlannedJob half = plan_job(job_, target);
  EXPECT_EQ(half.settings.slow_matmul_note, "");
  job_.precision = Precision::fp32_true;
  const PlannedJob full = plan_job(job_, target);
  for (const Precision each : {Precision::bf16_mixed, Precision::bf16_true}) {
    job_.precision = each;
    const PlannedJob slow = plan_job(job_, target);
    EXPECT_TRUE(slow.plan.fits);
    EXPECT_GT(slow.step_seconds, 2 * half.step_seconds);
    EXPECT_GT(slow.step_seconds, 0.9 * full.step_seconds);  // the rate that it has
    EXPECT_THAT(slow.settings.slow_matmul_note,
                AllOf(HasSubstr(std::string(name_of(each))), HasSubstr("Tesla V100 SXM2 16GB has no bfloat16"),
                      HasSubstr(fmt::format("16-mixed {:.3g} s", half.step_seconds)), HasSubstr("precision: auto")));
    EXPECT_EQ(slow.plan.reasons.back().why, slow.settings.reasons.back().why);
  }
  job_.precision = Precision::automatic;
  EXPECT_EQ(plan_job(job_, target).settings.precision, Precision::fp16_mixed);
  // A device with the faster type reports nothing.
  job_.precision = Precision::bf16_mixed;
  EXPECT_EQ(plan_job(job_, target_of(require_device("rtx3090"))).settings.slow_matmul_note, "");
}

TEST_F(SlowMatmul, AutoTakesTheFaster) {
  job_.precision = Precision::automatic;
  EXPECT_EQ(plan_job(job_, fake(0.1)).settings.precision, Precision::fp32_true);
  EXPECT_EQ(plan_job(job_, fake(2)).settings.precision, Precision::bf16_mixed);
  EXPECT_EQ(plan_job(job_, fake(0.1)).settings.slow_matmul_note, "");
}

}  // namespace
}  // namespace plimsoll
