// Tests plans of a training whose whole process has a budget. The planning and what the process has resident are the
// test's.
#include "run/search/process_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/measurement.h"
#include "base/process.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"

namespace plimsoll::process_budget_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMinimum = 40 * MiB;

// The process of a test: what it has resident is what the test says.
class ProcessBudget : public ::testing::Test {
 protected:
  int64_t resident() const { return memory_.now; }
  void grow(int64_t bytes) {
    memory_.now += bytes;
    memory_.peak = std::max(memory_.peak, memory_.now);
  }
  void release(int64_t bytes) { memory_.now -= bytes; }

 private:
  ResidentMemory memory_{.now = 300 * MiB, .peak = 310 * MiB};
  const ScopedFakeResidentMemory fake_{[this] { return memory_; }};
};

// Returns a plan that takes the whole budget, at most `most`, and fits from kMinimum on.
PlannedTraining plan_in(const PlanTarget& target, int64_t most = 1024 * GiB) {
  PlannedTraining planned;
  planned.plan.arena_bytes = std::max(kMinimum, std::min(most, target.budget.device.value_or(most)));
  planned.plan.fits = !target.budget.device || *target.budget.device >= kMinimum;
  planned.minimum_budget_bytes = kMinimum;
  return planned;
}

PlanTarget target_with(std::optional<int64_t> process, std::optional<int64_t> device = {}) {
  PlanTarget target;
  target.budget.process = process;
  target.budget.device = device;
  return target;
}

TEST_F(ProcessBudget, WithoutOneTheTargetIsPlannedAsItIs) {
  const PlannedTraining planned =
      plan_within_process(target_with({}, 100 * MiB), [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_EQ(planned.plan.arena_bytes, 100 * MiB);
  EXPECT_EQ(planned.process.budget, 0);
}

TEST_F(ProcessBudget, TheArenaGetsWhatTheProcessLeaves) {
  const int64_t limit = resident() + 200 * MiB;
  PlanTarget target = target_with(limit);
  target.later_bytes = 30 * MiB;
  std::string reason;
  const PlannedTraining planned = plan_within_process(target, [&](const PlanTarget& bounded) {
    reason = bounded.budget_reason;
    PlannedTraining planned = plan_in(bounded);
    planned.settings.prefetched_batch_bytes = 10 * MiB;
    return planned;
  });
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.process.total(), limit);
  EXPECT_EQ(planned.process.later, 46 * MiB);
  EXPECT_EQ(planned.process.minimum, planned.process.total() - planned.plan.arena_bytes + kMinimum);
  EXPECT_THAT(reason, HasSubstr("process_budget is"));
}

TEST_F(ProcessBudget, WhatPlanningKeepsIsTakenFromTheArena) {
  const int64_t limit = resident() + 200 * MiB;
  int plans = 0;
  const PlannedTraining planned = plan_within_process(target_with(limit), [&](const PlanTarget& bounded) {
    if (++plans == 1) grow(60 * MiB);
    return plan_in(bounded);
  });
  EXPECT_EQ(plans, 2);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.process.total(), limit);
  EXPECT_EQ(planned.plan.arena_bytes, 134 * MiB);
}

TEST_F(ProcessBudget, WhatPlanningReleasesIsLeftToALaterPlan) {
  const int64_t limit = resident() + 200 * MiB;
  const PlannedTraining planned = plan_within_process(target_with(limit), [&](const PlanTarget& bounded) {
    release(20 * MiB);
    PlannedTraining planned = plan_in(bounded);
    planned.settings.budget.device = GiB;
    return planned;
  });
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_EQ(planned.plan.arena_bytes, 194 * MiB);
  EXPECT_EQ(planned.process.total(), limit - 20 * MiB);
  EXPECT_EQ(planned.settings.budget.device, 214 * MiB);
}

TEST_F(ProcessBudget, ProcessesThatAreTooLargeDoNotFitAndHaveAMinimum) {
  const int64_t limit = resident() + 10 * MiB;
  const auto plan = [](const PlanTarget& target) { return plan_in(target); };
  const PlannedTraining planned = plan_within_process(target_with(limit), plan);
  EXPECT_FALSE(planned.plan.fits);
  EXPECT_EQ(planned.process.minimum, resident() + (6 + 40 + 8) * MiB);
  EXPECT_TRUE(plan_within_process(target_with(planned.process.minimum), plan).plan.fits);
  // Planning needs its largest resident memory again.
  grow(100 * MiB);
  release(100 * MiB);
  EXPECT_EQ(plan_within_process(target_with(limit), plan).process.minimum, resident() + (100 + 8) * MiB);
}

TEST_F(ProcessBudget, APlanningThatKeepsGrowingDoesNotFit) {
  const int64_t limit = resident() + 120 * MiB;
  const PlannedTraining planned = plan_within_process(target_with(limit), [&](const PlanTarget& bounded) {
    grow(20 * MiB);
    return plan_in(bounded);
  });
  EXPECT_FALSE(planned.plan.fits);
}

TEST_F(ProcessBudget, ASmallerStatedBudgetStays) {
  const PlannedTraining planned = plan_within_process(target_with(resident() + 400 * MiB, 50 * MiB),
                                                      [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_EQ(planned.plan.arena_bytes, 50 * MiB);
}

TEST_F(ProcessBudget, HostMemoryAndMeasurementsAreWithinIt) {
  PlanTarget target = target_with(resident() + 100 * MiB);
  target.budget.host = GiB;
  target.measuring = std::make_shared<MeasureAllowance>();
  // On the CPU the arena comes first: memory that is offloaded to is the same.
  const PlannedTraining planned = plan_within_process(target, [&](const PlanTarget& bounded) {
    EXPECT_LE(bounded.budget.host + *bounded.budget.device, 101 * MiB);
    EXPECT_GE(*bounded.budget.device, kMinimum);
    EXPECT_LE(bounded.measuring->limits().bytes, 101 * MiB);
    return plan_in(bounded);
  });
  EXPECT_TRUE(planned.plan.fits);
  target.budget.device = 60 * MiB;
  plan_within_process(target, [&](const PlanTarget& bounded) {
    EXPECT_EQ(bounded.budget.device, 60 * MiB);
    EXPECT_GE(bounded.budget.host, 20 * MiB);
    return plan_in(bounded);
  });
  target.budget.device.reset();
  target.device = "cuda";
  plan_within_process(target, [&](const PlanTarget& bounded) {
    EXPECT_FALSE(bounded.budget.device);
    EXPECT_LE(bounded.budget.host, 101 * MiB);
    return plan_in(bounded, MiB);
  });
}

TEST_F(ProcessBudget, AStatedBudgetThatIsTooSmallIsNotTheProcesss) {
  const PlannedTraining planned = plan_within_process(target_with(resident() + 400 * MiB, MiB),
                                                      [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_FALSE(planned.plan.fits);
  EXPECT_FALSE(planned.process.binds);
  EXPECT_EQ(planned.minimum_budget_bytes, kMinimum);
  const PlannedTraining bound = plan_within_process(target_with(resident() + 10 * MiB, 400 * MiB),
                                                    [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_TRUE(bound.process.binds);
}

TEST_F(ProcessBudget, AutoIsWhatTheProcessHasAndWhatIsFree) {
  const ScopedFakeHostMemory memory([] { return std::optional(100 * MiB); });
  Budget budget{.process = 0};
  EXPECT_EQ(process_limit_of(budget), resident() + 90 * MiB);
  budget.process = 5 * MiB;
  EXPECT_EQ(process_limit_of(budget), 5 * MiB);
}

TEST_F(ProcessBudget, AnotherMachinesProcessIsNotPlanned) {
  PlanTarget target = target_with(1);
  target.is_local = false;
  const PlannedTraining planned =
      plan_within_process(target, [](const PlanTarget& bounded) { return plan_in(bounded, 50 * MiB); });
  EXPECT_EQ(planned.plan.arena_bytes, 50 * MiB);
  EXPECT_TRUE(planned.plan.fits);
}

}  // namespace
}  // namespace plimsoll::process_budget_test
