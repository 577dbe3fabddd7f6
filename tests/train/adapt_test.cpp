// Tests memory that was available when the job was planned and is not when it is allocated.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Returns the given numbers in turn; the last one repeats.
ScopedFakeHostMemory::Answer in_turn(std::vector<int64_t> answers) {
  return [answers = std::move(answers), next = size_t{0}]() mutable {
    return std::optional(answers[std::min(next++, answers.size() - 1)]);
  };
}

class AdaptTest : public ::testing::Test {
 protected:
  AdaptTest() {
    job_.data.sequence_length = 64;  // long enough that activations matter
    job_.batch_size = 8;
    job_.micro_batch_size.reset();
    job_.gradient_accumulation_steps.reset();
    Job small = job_;
    small.budget.device = 1;
    least_ = plan_job(small).minimum_budget_bytes;
    whole_ = plan_job(job_).plan.peak_bytes;
    job_.budget.device.reset();
  }

  TrainReport run(ScopedFakeHostMemory::Answer answer) {
    const ScopedFakeHostMemory stand_in(std::move(answer));
    return train_job(job_, watcher_);
  }

  TempFolder folder_;
  Job job_ = tiny_job(folder_, /*windows=*/64);
  Watcher watcher_;
  int64_t least_ = 0, whole_ = 0;  // bytes: the smallest budget that fits, what the fastest plan takes
};

TEST_F(AdaptTest, PlansForWhatIsAvailableLessTenPercent) {
  const TrainReport report = run(in_turn({GiB}));
  EXPECT_EQ(report.job.plan.budget.device_bytes(), GiB / 10 * 9);
  EXPECT_THAT(watcher_.replans, SizeIs(0));
}

TEST_F(AdaptTest, PlansAgainForWhatThereIsWhenAnotherProgramCameFirst) {
  const int64_t little = least_ * 3 / 2, budget = little / 10 * 9;
  ASSERT_LT(little, whole_);
  const TrainReport report = run(in_turn({GiB, little}));
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.steps, 6);
  EXPECT_EQ(watcher_.plans, 1);
  ASSERT_THAT(watcher_.replans, SizeIs(1));
  EXPECT_THAT(watcher_.replans[0].first, AllOf(HasSubstr("the machine has " + format_bytes(little) + " available now"),
                                               HasSubstr("the arena takes")));
  EXPECT_EQ(watcher_.replans[0].second, budget);
  EXPECT_EQ(report.job.plan.budget.device_bytes(), budget);
  EXPECT_LE(report.measured_peak_bytes, budget);
  EXPECT_LT(report.job.settings.micro_batch(), 8);
  job_.budget.device = budget;
  EXPECT_EQ(report.losses, train(job_).losses);
}

TEST_F(AdaptTest, AgainAndAgain) {
  const int64_t some = whole_ * 9 / 10, little = least_ * 3 / 2;
  ASSERT_LT(little, some * 8 / 10);
  const TrainReport report = run(in_turn({GiB, some, some, some, little}));
  EXPECT_TRUE(report.fits);
  ASSERT_THAT(watcher_.replans, SizeIs(2));
  EXPECT_EQ(watcher_.replans[0].second, some / 10 * 9);
  EXPECT_EQ(watcher_.replans[1].second, little / 10 * 9);
}

// For any number that the system reports as available, a refused size is not requested a second time.
TEST_F(AdaptTest, AsksForLessEachTime) {
  const int64_t little = least_ * 3 / 2;
  int calls = 0;
  const TrainReport report = run([&]() -> std::optional<int64_t> {
    ++calls;
    return calls % 3 == 2 ? little : GiB;  // when it is allocated; plenty when it is planned
  });
  EXPECT_TRUE(report.fits);
  EXPECT_GE(watcher_.replans.size(), 2u);
  EXPECT_LE(report.measured_peak_bytes, little);
  for (size_t i = 1; i < watcher_.replans.size(); ++i)
    EXPECT_LT(watcher_.replans[i].second, watcher_.replans[i - 1].second);
}

// Both arenas are in the same memory here: bytes of one are not available for the other.
TEST_F(AdaptTest, HostMemoryCountsToo) {
  job_.budget.host = least_ / 4;
  const int64_t some = least_ * 3 / 2, budget = some / 10 * 9 - job_.budget.host;
  const TrainReport report = run(in_turn({some}));
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.job.plan.budget.device_bytes(), budget);
  EXPECT_LE(report.job.plan.arena_bytes + report.job.plan.host_bytes, some);
  const TrainReport again = run(in_turn({GiB, some}));
  EXPECT_TRUE(again.fits);
  EXPECT_LE(again.job.plan.arena_bytes + again.job.plan.host_bytes, some);
  job_.budget.device = whole_;
  job_.budget.host = GiB;
  job_.budget.device = least_;
  try {
    run(in_turn({least_ / 2}));
    FAIL() << "trained";
  } catch (const MemoryUnavailable& error) {
    EXPECT_THAT(error.what(), HasSubstr("lower memory_budget"));
  }
}

// Even if another plan would be faster by now.
TEST_F(AdaptTest, AResumedRunKeepsThePrecisionThatWasChosen) {
  job_.precision = Precision::automatic;
  job_.checkpoint.directory = folder_ / "run";
  job_.max_steps = 2;
  const Precision first = run(in_turn({GiB})).job.settings.precision;
  const Precision other = first == Precision::fp32_true ? Precision::bf16_mixed : Precision::fp32_true;
  job_.checkpoint.directory = folder_ / "other";
  job_.precision = other;
  EXPECT_EQ(run(in_turn({GiB})).steps, 2);
  job_.precision = Precision::automatic;
  job_.max_steps = 4;
  const TrainReport resumed = run(in_turn({GiB}));
  EXPECT_EQ(resumed.resumed_step, 2);
  EXPECT_EQ(resumed.job.settings.precision, other);
}

TEST_F(AdaptTest, BelowTheMinimumItDoesNotFit) {
  job_.checkpoint.directory = folder_ / "run";
  const TrainReport report = run(in_turn({GiB, least_ / 2}));
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.steps, 0);
  EXPECT_THAT(watcher_.replans, SizeIs(1));
  EXPECT_EQ(report.job.minimum_budget_bytes, least_);
  EXPECT_EQ(report.job.plan.budget.device_bytes(), least_ / 2 / 10 * 9);
}

TEST_F(AdaptTest, AResumedRunGoesOn) {
  job_.checkpoint.directory = folder_ / "run";
  job_.max_steps = 3;
  EXPECT_TRUE(run(in_turn({GiB})).fits);
  job_.max_steps = 5;
  const TrainReport report = run(in_turn({GiB, least_ * 3 / 2}));
  EXPECT_EQ(report.resumed_step, 3);
  EXPECT_EQ(report.steps, 5);
  EXPECT_THAT(watcher_.replans, SizeIs(1));
}

TEST_F(AdaptTest, AnExplicitBudgetIsNotChanged) {
  job_.budget.device = GiB;
  const auto refusal = [&](int64_t available) {
    try {
      run(in_turn({available}));
    } catch (const MemoryUnavailable& error) {
      EXPECT_EQ(error.kind(), UserError::Kind::failure);
      return std::string(error.what());
    }
    return std::string("trained");
  };
  const int64_t little = least_ * 3 / 2;
  const std::string lower = fmt::format("{}KiB", little / 10 * 9 / KiB);
  EXPECT_THAT(refusal(little), AllOf(HasSubstr("the machine has " + format_bytes(little) + " available now"),
                                     HasSubstr("the arena takes "),
                                     HasSubstr("lower memory_budget to " + lower + ", or set it to auto")));
  EXPECT_THAT(refusal(least_ / 2), HasSubstr("the job needs at least " + format_bytes_up(least_)));
  std::string available;
  try {
    run(in_turn({least_ / 2}));
  } catch (const BudgetUnavailable& error) {
    available = error.budget();
  }
  EXPECT_EQ(available, fmt::format("{}KiB", least_ / 2 / 10 * 9 / KiB));
  EXPECT_THAT(watcher_.replans, SizeIs(0));
  EXPECT_THAT(watcher_.steps, SizeIs(0));
  job_.budget.device = parse_bytes(lower);  // text as in the message
  EXPECT_EQ(refusal(little), "trained");
}

TEST_F(AdaptTest, WhereTheSystemDoesNotSayNothingIsRefused) {
  job_.budget.device = GiB;
  EXPECT_TRUE(run([] { return std::optional<int64_t>(); }).fits);
}

}  // namespace
}  // namespace plimsoll
