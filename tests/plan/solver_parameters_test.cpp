// The limits of the searches have their effect, and ones that no search can work with are refused.
#include "plimsoll/solver_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/random_trace.h"
#include "plimsoll/error.h"
#include "plimsoll/placement.h"
#include "plimsoll/plan.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::random_step;
using testing::TraceText;

class SolverLimits : public ::testing::Test {
 protected:
  SolverLimits() {
    options_.cost.overhead_seconds = 10e-12;
    for (auto& kind : options_.cost.rates) kind.fill({0, 1e12});
  }

  /// Seconds of recomputation in plans of random steps halfway between the minimum budget and no limit. The plans are
  /// still within their budgets.
  double recompute_seconds(const SolverParameters& solver) const {
    std::mt19937 random(5);
    double seconds = 0;
    for (int round = 0; round < 8; ++round) {
      const TraceText text(random_step(random, {.blocks = 8}));
      PlanOptions options = options_;
      const Planner usual(text.trace, options);
      const int64_t least = usual.minimum_budget(), most = usual.plan({}).peak_bytes;
      options.solver = solver;
      const Planner planner(text.trace, options);
      const Plan plan = planner.plan(std::max((least + most) / 2, planner.minimum_budget()));
      EXPECT_TRUE(plan.fits);
      seconds += plan.time.recompute;
    }
    return seconds;
  }

  PlanOptions options_;
};

TEST_F(SolverLimits, WithoutAttemptsThePlanWithTheLeastMemoryIsTheAnswer) {
  SolverParameters none;
  none.max_placement_attempts = 0;
  EXPECT_GT(recompute_seconds(none), recompute_seconds({}));
}

TEST_F(SolverLimits, FewerChoicesForEachRegionCostTime) {
  SolverParameters few;
  few.recompute.max_region_choices = 1;
  few.recompute.max_exhaustive_decisions = 0;
  few.recompute.refinement_work = 0;
  few.recompute.max_limit_attempts = 0;
  EXPECT_GT(recompute_seconds(few), recompute_seconds({}));
}

TEST_F(SolverLimits, PlacementWithoutEffortOrWithoutTheTreeIsNoLower) {
  std::mt19937 random(3);
  int64_t full = 0, no_tree = 0, no_effort = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<PlacementItem> items;
    for (int i = 0; i < 30; ++i) {
      const int64_t lower = random() % 30;
      items.push_back(
          {lower, lower + 1 + static_cast<int64_t>(random() % 12), 1 + static_cast<int64_t>(random() % 40)});
    }
    PlacementOptions options;
    options.effort = 2000;
    full += place(items, options).height;
    options.tree_search.max_boxes = 0;
    no_tree += place(items, options).height;
    options.effort = 0;
    no_effort += place(items, options).height;
  }
  EXPECT_LT(full, no_tree);
  EXPECT_LT(no_tree, no_effort);
}

TEST_F(SolverLimits, ImpossibleLimitsAreRefused) {
  const TraceText text("buffer x 64 persistent\nmicro\nf - y = x\n");
  const auto expect_refusal = [&](const char* member, const auto& change) {
    PlanOptions options = options_;
    change(options.solver);
    try {
      make_plan(text.trace, options);
      ADD_FAILURE() << member;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(member));
    }
  };
  expect_refusal("tree_search.orders", [](SolverParameters& solver) { solver.tree_search.orders = 0; });
  expect_refusal("max_exhaustive_decisions", [](SolverParameters& s) { s.recompute.max_exhaustive_decisions = 31; });
  expect_refusal("max_partial_solutions", [](SolverParameters& s) { s.recompute.max_partial_solutions = 1; });
  expect_refusal("max_evaluations", [](SolverParameters& s) { s.offload.max_evaluations = 1; });
  expect_refusal("max_value_ratio", [](SolverParameters& s) { s.offload.max_value_ratio = 0; });
  expect_refusal("steps_per_kind", [](SolverParameters& s) { s.offload.steps_per_kind = 0; });
  expect_refusal("max_open_groups", [](SolverParameters& s) { s.merging.max_open_groups = 0; });
}

}  // namespace
}  // namespace plimsoll
