// Tests that `auto` is never worse than any value that it replaces: not in the minimum budget, and at no budget in
// predicted time. Over random jobs, planned and not run; PLIMSOLL_RANDOM_JOBS=n tests n jobs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "rounds.h"
#include "run/training_parts.h"
#include "train/random_jobs.h"

namespace plimsoll {
namespace {

using testing::RandomJobs;

int jobs_to_plan(int defaults) {
  const char* const requested = std::getenv("PLIMSOLL_RANDOM_JOBS");
  return requested ? std::max(1, std::atoi(requested)) : testing::rounds(defaults);
}

// Links from a quarter to four times as fast as the device's, launches with and without cost: the best choices of
// offload and recomputation differ.
CostModel random_cost(RandomJobs& jobs) {
  CostModel cost = target_of(require_device(jobs.pick({"rtx4090", "a100-40gb-pcie", "rtx3060-12gb"}))).cost;
  if (jobs.random()() % 2) cost.overhead_seconds = 0;
  const double speed = std::vector{0.25, 1.0, 4.0}[jobs.random()() % 3];
  cost.host_link *= speed;
  cost.disk_link = cost.host_link / 4;
  if (jobs.random()() % 4 == 0) cost.copies_overlap = false;
  if (jobs.random()() % 2) cost.host_bytes = 0;
  return cost;
}

// The two comparisons of a plan of `auto` with a fixed one: the minimum budget, and predicted seconds under one budget.
struct Compared {
  int plans = 0;
  double worst_least = 1, worst_time = 1;

  void least(int64_t open, int64_t pinned) {
    worst_least = std::max(worst_least, static_cast<double>(open) / static_cast<double>(pinned));
  }
  void time(double open, double pinned) {
    ++plans;
    worst_time = std::max(worst_time, open / pinned);
  }
};

// `compile` alone is not exact. Chains are fused one by one after all other choices, and the room that a step with all
// of them, or none, leaves is not searched again. The bounds are those of plans that are not monotonic for the same
// reason (PlansAreMonotonic): a hundredth and a half of the time, a fiftieth of the bytes.
constexpr double kCompileTime = 1.015, kCompileBytes = 1.02;

// Choices of one recorded step: recomputation, updates in backward and fusing. The values that a job can set are
// candidates themselves, except for `compile`; the comparison of the others is exact.
TEST(AutoIsNeverWorse, ThanAPinnedWayToPlanAStep) {
  const int count = jobs_to_plan(40);
  const std::vector<std::string> names{"gradient_checkpointing", "update_in_backward", "compile"};
  std::vector<Compared> compared(names.size());
  int moved = 0, recomputed = 0;
  for (int number = 0; number < count; ++number) {
    const unsigned seed = 1000 + number;
    RandomJobs jobs(seed);
    const std::string text =
        jobs.text(fmt::format("batch_size: 4\nmicro_batch_size: {}\nprecision: {}\n", jobs.pick({"1", "2", "4"}),
                              jobs.pick({"32-true", "bf16-mixed", "bf16-true"})));
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Job job = parse_job(text, "random", ".");
    TrainingOptions training = options_of(job);
    training.cost = random_cost(jobs);
    const auto others = jobs.random()() % 5;  // nothing but the device, or host memory, or a disk as well
    training.budget.host = others < 3 ? 0 : 1 << 18 << jobs.random()() % 10;
    training.budget.disk = others == 4 ? 1 << 28 : 0;
    const Trace trace = record_step(step_of(job, *job.micro_batch_size), training);
    const auto options_with = [&](size_t key, Choice value) {
      TrainingOptions with = training;
      with.gradient_checkpointing = key == 0 ? value : Choice::automatic;
      with.update_in_backward = key == 1 ? value : Choice::automatic;
      with.compile = key == 2 ? value : Choice::automatic;
      return plan_options_of(with, nullptr);
    };
    const Planner open(trace, options_with(0, Choice::automatic));
    const auto seconds = [&](const Plan& plan) {
      const int64_t micro_batches = training.micro_batches;
      return plan.time.step(micro_batches, trace.segment(SegmentKind::remainder) != nullptr && micro_batches > 1);
    };
    std::vector<std::optional<int64_t>> budgets{std::nullopt};
    std::vector<Plan> plans{open.plan({})};
    const int64_t least = open.minimum_budget(), most = plans[0].peak_bytes;
    budgets.emplace_back(least + (most - least) * static_cast<int64_t>(jobs.random()() % 7) / 8);
    plans.push_back(open.plan(budgets[1]));
    EXPECT_TRUE(plans[1].fits) << *budgets[1];
    moved += plans[1].host_bytes + plans[1].disk_bytes > 0;
    recomputed += plans[1].checkpointed;
    const size_t key = number % 7 < 4 ? 0 : number % 7 < 6 ? 1 : 2;
    const bool drawn = jobs.random()() % 2;
    for (const Choice value : {Choice::on, Choice::off}) {
      if (key > 0 && drawn == (value == Choice::on)) continue;  // one of the two
      SCOPED_TRACE(fmt::format("{}: {}", names[key], value == Choice::on));
      std::optional<Planner> pinned;
      try {
        pinned.emplace(trace, options_with(key, value));
      } catch (const UserError&) {
        continue;  // updates in backward that cannot be
      }
      for (size_t i = 0; i < plans.size(); ++i) {
        const Plan other = pinned->plan(budgets[i]);
        if (i == 0) {
          compared[key].least(least, pinned->minimum_budget());
          EXPECT_LE(static_cast<double>(least),
                    static_cast<double>(pinned->minimum_budget()) * (key == 2 ? kCompileBytes : 1));
        }
        if (!other.fits) continue;
        compared[key].time(seconds(plans[i]), seconds(other));
        EXPECT_LE(seconds(plans[i]), seconds(other) * (key == 2 ? kCompileTime : 1)) << budgets[i].value_or(0);
      }
    }
    if (HasFailure()) return;
  }
  fmt::print("{} jobs, seeds 1000 to {}: {} of {} plans move something, {} recompute\n", count, 999 + count, moved,
             count, recomputed);
  for (size_t key = 0; key < names.size(); ++key)
    fmt::print("{}: {} comparisons, auto's least is at most {:.4f} times a pinned one's, its time {:.4f} times\n",
               names[key], compared[key].plans, compared[key].worst_least, compared[key].worst_time);
  if (count < 200) return;
  EXPECT_GE(moved, 50);
  EXPECT_GE(recomputed, 50);
}

}  // namespace
}  // namespace plimsoll
