#include "plan/offload_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "plan/passes/pipeline.h"
#include "plan/random_trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using testing::random_step;
using testing::TraceText;

// The plans of a random step whose parameters and gradients may be offloaded, with a count of the schedules made.
class RandomStep {
 public:
  struct Size {
    int ops_a_block = 5;  ///< maximum
    int64_t host_bytes = 1 << 20;
  };
  RandomStep(std::mt19937& random, const Size& size, const SolverParameters& solver)
      : trace_(trace_of(random, size.ops_a_block)) {
    options_.solver = solver;
    options_.cost.overhead_seconds = 10e-12;
    options_.cost.host_link = std::pow(4.0, static_cast<int>(random() % 5) - 2) * 1e12;
    for (auto& kind : options_.cost.rates) kind.fill({0, 1e12});
    options_.cost.host_bytes = 0;  // no update runs on the host
    options_.budget.host = size.host_bytes;
    options_.on_schedule = [this] { ++schedules_; };
    builder_.emplace(trace_, options_, PlanChoices{});
    variants_.emplace(builder_->trace(), *builder_->search(), options_);
    schedules_ = 0;
    planner_.emplace(*builder_, *variants_, nullptr);
    schedules_at_first_ = schedules_;
  }
  RandomStep(const RandomStep&) = delete;
  RandomStep& operator=(const RandomStep&) = delete;

  const OffloadVariants& variants() const { return *variants_; }
  /// Returns the schedules made to find the plan with the smallest peak.
  int schedules_at_first() const { return schedules_at_first_; }
  int64_t host_bytes() const { return options_.budget.host; }
  int64_t min_peak() const { return planner_->min_memory_plan()->peak_bytes; }
  int64_t keep_all_peak() const { return builder_->build(builder_->search()->keep_all_solution()).peak_bytes; }

  /// Returns the predicted seconds of the plan under `budget` bytes.
  double seconds_under(int64_t budget) const {
    const Plan plan = planner_->choose(budget, builder_->build(builder_->search()->keep_all_solution()));
    EXPECT_LE(plan.peak_bytes, budget);
    return builder_->step_seconds(plan);
  }

 private:
  static Trace trace_of(std::mt19937& random, int ops_a_block) {
    TraceText text(
        random_step(random, {.blocks = 4 + static_cast<int>(random() % 4), .ops_a_block = ops_a_block, .roles = true}));
    testing::with_roles(text.trace);
    return text.trace;
  }

  const Trace trace_;
  PlanOptions options_;
  int schedules_ = 0, schedules_at_first_ = 0;
  std::optional<ScheduleBuilder> builder_;
  std::optional<OffloadVariants> variants_;
  std::optional<OffloadPlanner> planner_;
};

// A schedule with block checkpointing is made only for fractions where it needs less memory than every other choice.
TEST(OffloadPlanner, BlockCheckpointingIsTriedIfItNeedsLessMemory) {
  std::mt19937 random(21);
  int tried = 0, skipped = 0;
  for (int round = 0; round < testing::rounds(60); ++round) {
    SolverParameters solver;
    solver.max_placement_attempts = 1;  // one schedule for each fraction and choice
    const RandomStep step(random, {.ops_a_block = 10, .host_bytes = 8192}, solver);
    int expected = 0;
    const int kinds = step.variants().candidates().kind_count();
    for (int fraction = std::min(kinds, 1); fraction <= kinds; ++fraction) {
      const OffloadVariant& variant = step.variants().at(fraction, step.host_bytes());
      const int64_t room = step.host_bytes() - variant.assignment.host_bytes;
      const bool less = variant.offload_search->min_memory_solution(room).peak <
                        variant.offload_search->min_memory_without_block_checkpointing(room).peak;
      expected += less ? 2 : 1;
      ++(less ? tried : skipped);
    }
    EXPECT_EQ(step.schedules_at_first(), expected);
  }
  EXPECT_GT(tried, 0);
  EXPECT_GT(skipped, 0);
}

// Small steps try more fractions than large steps, so their plans are faster.
TEST(OffloadPlanner, SmallStepsTryMoreFractions) {
  double small_seconds = 0, large_seconds = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed), again(seed);
    SolverParameters few;
    few.large_trace_ops = 0;
    const RandomStep small(random, {}, {}), large(again, {}, few);
    const int64_t least = std::max(small.min_peak(), large.min_peak());
    for (int part = 1; part < 4; ++part) {
      const int64_t budget = least + (small.keep_all_peak() - least) * part / 8;
      small_seconds += small.seconds_under(budget);
      large_seconds += large.seconds_under(budget);
    }
  }
  EXPECT_LT(small_seconds, large_seconds);
}

}  // namespace
}  // namespace plimsoll
