// Tests plan targets of several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/available_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/train_job.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

TEST(RankTarget, HasTheLinkOfItsDevice) {
  const PlanTarget target = with_ranks(target_of(require_device("h100-sxm")), {.ranks = 8});
  EXPECT_EQ(target.ranks.count, 8);
  EXPECT_THAT(target.ranks.link, HasSubstr("NVLink 4"));
  EXPECT_DOUBLE_EQ(target.cost.peer_link, require_link("nvlink4").bytes_per_second * require_link("nvlink4").reach);
  EXPECT_EQ(target.budget.device, target_of(require_device("h100-sxm")).budget.device);
}

TEST(RankTarget, OfOneRankHasNoLink) {
  const PlanTarget target = with_ranks(target_of(require_device("h100-sxm")), {});
  EXPECT_EQ(target.ranks.link, "");
  EXPECT_EQ(target.cost.peer_link, 0);
}

TEST(RankTarget, OnTheCpuSharesTheMemoryThatNoJobStates) {
  const TempFolder folder;
  const ScopedFakeHostMemory stand_in([] { return 10 * GiB; });
  Job job = tiny_job(folder);
  job.budget.device.reset();
  const int64_t alone = *target_of(job).budget.device;
  job.ranks.count = 4;
  const PlanTarget four = target_of(job);
  EXPECT_EQ(four.budget.device, alone / 4);
  EXPECT_THAT(four.budget_reason, HasSubstr("1/4"));
  EXPECT_EQ(four.ranks.link, "shared memory of one host");
  job.budget.device = GiB;
  EXPECT_EQ(target_of(job).budget.device, GiB);  // budget of each rank
}

TEST(RankTarget, SetsTheRanksOfThePlan) {
  const TempFolder folder;
  const Job job = tiny_job(folder);
  const PlannedJob planned = plan_job(job, with_ranks(target_of(require_device("a6000")), {.ranks = 2}));
  EXPECT_EQ(planned.settings.ranks.count, 2);
  EXPECT_EQ(planned.settings.link, "PCI Express 4.0 x16");
  EXPECT_EQ(plan_job(job).settings.ranks.count, 1);
}

TEST(RankTarget, OptionsHaveTheRanksOfTheJob) {
  Job job;
  job.ranks.count = 4;
  job.ranks.strategy = Strategy::zero2;
  EXPECT_EQ(options_of(job).ranks, (RankOptions{4, 0, Strategy::zero2}));
}

}  // namespace
}  // namespace plimsoll
