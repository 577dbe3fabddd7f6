// Tests plans of a training whose whole process has a budget. The planning is a function of the test, which takes as
// much of the process's memory as the test says.
#include "run/search/process_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/measurement.h"
#include "base/process.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"

namespace plimsoll::process_budget_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMinimum = 40 * MiB;

// Memory that planning keeps: written, so that it is resident.
class Held {
 public:
  void grow(int64_t bytes) { parts_.emplace_back(static_cast<size_t>(bytes), 'x'); }

 private:
  std::vector<std::vector<char>> parts_;
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

int64_t resident() {
  release_free_memory();
  return resident_memory().now;
}

TEST(ProcessBudget, ResidentMemoryCountsWhatIsWritten) {
  const ResidentMemory before = resident_memory();
  Held held;
  held.grow(32 * MiB);
  const ResidentMemory after = resident_memory();
  EXPECT_GE(after.now, before.now + 30 * MiB);
  EXPECT_GE(after.peak, after.now);
}

TEST(ProcessBudget, WithoutOneTheTargetIsPlannedAsItIs) {
  const PlannedTraining planned =
      plan_within_process(target_with({}, 100 * MiB), [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_EQ(planned.plan.arena_bytes, 100 * MiB);
  EXPECT_EQ(planned.process.budget, 0);
}

TEST(ProcessBudget, TheArenaGetsWhatTheProcessLeaves) {
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
  EXPECT_LE(planned.process.total(), limit);
  EXPECT_GE(planned.process.total(), limit - 8 * MiB);
  EXPECT_EQ(planned.process.later, 46 * MiB);
  EXPECT_EQ(planned.process.minimum, planned.process.total() - planned.plan.arena_bytes + kMinimum);
  EXPECT_THAT(reason, HasSubstr("process_budget is"));
}

TEST(ProcessBudget, WhatPlanningKeepsIsTakenFromTheArena) {
  const int64_t limit = resident() + 200 * MiB;
  Held held;
  int plans = 0;
  const PlannedTraining planned = plan_within_process(target_with(limit), [&](const PlanTarget& bounded) {
    if (++plans == 1) held.grow(60 * MiB);
    return plan_in(bounded);
  });
  EXPECT_EQ(plans, 2);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.process.total(), limit);
  EXPECT_NEAR(static_cast<double>(planned.plan.arena_bytes), 134.0 * MiB, 8.0 * MiB);
}

TEST(ProcessBudget, ProcessesThatAreTooLargeDoNotFitAndHaveAMinimum) {
  const int64_t limit = resident() + 10 * MiB;
  const PlannedTraining planned =
      plan_within_process(target_with(limit), [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_FALSE(planned.plan.fits);
  // Or what planning has had resident: of this process, all tests before.
  const int64_t least = std::max(limit + 36 * MiB, resident_memory().peak) + 8 * MiB;
  EXPECT_NEAR(static_cast<double>(planned.process.minimum), static_cast<double>(least), 8.0 * MiB);
  const PlannedTraining again = plan_within_process(target_with(planned.process.minimum + 8 * MiB),
                                                    [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_TRUE(again.plan.fits);
}

TEST(ProcessBudget, APlanningThatKeepsGrowingDoesNotFit) {
  const int64_t limit = resident() + 120 * MiB;
  Held held;
  const PlannedTraining planned = plan_within_process(target_with(limit), [&](const PlanTarget& bounded) {
    held.grow(20 * MiB);
    return plan_in(bounded);
  });
  EXPECT_FALSE(planned.plan.fits);
}

TEST(ProcessBudget, ASmallerStatedBudgetStays) {
  const PlannedTraining planned = plan_within_process(target_with(resident() + 400 * MiB, 50 * MiB),
                                                      [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_EQ(planned.plan.arena_bytes, 50 * MiB);
}

TEST(ProcessBudget, HostMemoryAndMeasurementsAreWithinIt) {
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

TEST(ProcessBudget, AStatedBudgetThatIsTooSmallIsNotTheProcesss) {
  const PlannedTraining planned = plan_within_process(target_with(resident() + 400 * MiB, MiB),
                                                      [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_FALSE(planned.plan.fits);
  EXPECT_FALSE(planned.process.binds);
  EXPECT_EQ(planned.minimum_budget_bytes, kMinimum);
  const PlannedTraining bound = plan_within_process(target_with(resident() + 10 * MiB, 400 * MiB),
                                                    [](const PlanTarget& target) { return plan_in(target); });
  EXPECT_TRUE(bound.process.binds);
}

TEST(ProcessBudget, AutoIsWhatTheProcessHasAndWhatIsFree) {
  const ScopedFakeHostMemory memory([] { return std::optional(100 * MiB); });
  Budget budget{.process = 0};
  EXPECT_NEAR(static_cast<double>(process_limit_of(budget)), static_cast<double>(resident_memory().now + 90 * MiB),
              4.0 * MiB);
  budget.process = 5 * MiB;
  EXPECT_EQ(process_limit_of(budget), 5 * MiB);
}

TEST(ProcessBudget, AnotherMachinesProcessIsNotPlanned) {
  PlanTarget target = target_with(1);
  target.is_local = false;
  const PlannedTraining planned =
      plan_within_process(target, [](const PlanTarget& bounded) { return plan_in(bounded, 50 * MiB); });
  EXPECT_EQ(planned.plan.arena_bytes, 50 * MiB);
  EXPECT_TRUE(planned.plan.fits);
}

}  // namespace
}  // namespace plimsoll::process_budget_test
