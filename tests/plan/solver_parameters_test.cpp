// Tests that the limits of the searches have their effect, and that invalid limits are rejected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "plan/random_trace.h"
#include "plimsoll/error.h"
#include "plimsoll/placement.h"
#include "plimsoll/planner.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
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
      const Planner defaults(text.trace, options);
      const int64_t least = defaults.minimum_budget(), most = defaults.plan({}).peak_bytes;
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

struct Case {
  std::string member, allowed;
  std::function<void(SolverParameters&)> change;
};

/// Makes a case for each of `values`, which are not allowed.
template <typename Member, typename Value>
void add_cases(std::vector<Case>& cases, const std::string& name, const std::string& allowed, Member member,
               std::vector<Value> values) {
  for (const Value value : values)
    cases.push_back({name, allowed, [=](SolverParameters& solver) {
                       member(solver) = static_cast<std::decay_t<decltype(member(solver))>>(value);
                     }});
}

std::vector<Case> impossible_limits() {
  constexpr int64_t kWork = (int64_t{1} << 40) + 1;
  constexpr int64_t kCount = (int64_t{1} << 30) + 1;
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const std::string& allowed, auto member, std::vector<int64_t> values) {
    add_cases(cases, name, allowed, member, std::move(values));
  };
#define MEMBER(name)                       \
  [](SolverParameters & solver) -> auto& { \
    return solver.name;                    \
  }
  const std::string counts = "0 to 1073741824", work = "0 to 1099511627776";
  add("max_placement_attempts", counts, MEMBER(max_placement_attempts), {-1, kCount});
  add("large_trace_ops", counts, MEMBER(large_trace_ops), {-1, kCount});
  add_cases<>(cases, "unmerged_recompute_fraction", "0 to 1", MEMBER(unmerged_recompute_fraction),
              std::vector<double>{-0.1, 1.1, nan});
  add("placement_effort", work, MEMBER(placement_effort), {-1, kWork});
  add("tree_search.max_boxes", counts, MEMBER(tree_search.max_boxes), {-1, kCount});
  add("tree_search.max_meetings", work, MEMBER(tree_search.max_meetings), {-1, kWork});
  add("tree_search.max_infeasible_states", work, MEMBER(tree_search.max_infeasible_states), {-1, kWork});
  add("tree_search.orders", "1 to 4", MEMBER(tree_search.orders), {0, 5});
  add("tree_search.promotion_placements", work, MEMBER(tree_search.promotion_placements), {-1, kWork});
  add("recompute.max_exhaustive_decisions", "0 to 30", MEMBER(recompute.max_exhaustive_decisions), {-1, 31});
  add("recompute.refinement_work", work, MEMBER(recompute.refinement_work), {-1, kWork});
  add_cases<>(cases, "recompute.accepted_cost_ratio", "1 to ", MEMBER(recompute.accepted_cost_ratio),
              std::vector<double>{0.9, infinite, nan});
  add("recompute.max_values_improved", counts, MEMBER(recompute.max_values_improved), {-1, kCount});
  add("recompute.improvement_rounds", counts, MEMBER(recompute.improvement_rounds), {-1, kCount});
  add("recompute.max_partial_solutions", "2 to", MEMBER(recompute.max_partial_solutions), {1, kCount});
  add("recompute.max_region_choices", "1 to", MEMBER(recompute.max_region_choices), {0, kCount});
  add("recompute.max_limit_attempts", counts, MEMBER(recompute.max_limit_attempts), {-1, kCount});
  add("offload.max_exhaustive_combinations", "0 to 1048575", MEMBER(offload.max_exhaustive_combinations),
      {-1, 1 << 20});
  add("offload.evaluation_work", work, MEMBER(offload.evaluation_work), {-1, kWork});
  add("offload.min_evaluations", counts, MEMBER(offload.min_evaluations), {-1, kCount});
  add("offload.max_evaluations", "10 to 1073741824", MEMBER(offload.max_evaluations), {9, kCount});
  add("offload.max_value_ratio", "1 to", MEMBER(offload.max_value_ratio), {0, kWork});
  add("offload.max_buffer_ratio", "1 to", MEMBER(offload.max_buffer_ratio), {0, kWork});
  add("offload.max_limit_attempts", counts, MEMBER(offload.max_limit_attempts), {-1, kCount});
  add("offload.bound_steps", "0 to 1000", MEMBER(offload.bound_steps), {-1, 1001});
  add("offload.steps_per_kind", "1 to 1000", MEMBER(offload.steps_per_kind), {0, 1001});
  add("merging.max_distance", counts, MEMBER(merging.max_distance), {-1, kCount});
  add("merging.max_open_groups", "1 to", MEMBER(merging.max_open_groups), {0, kCount});
  add("merging.max_grouped_elements", work, MEMBER(merging.max_grouped_elements), {-1, kWork});
  add("merging.max_group_elements", work, MEMBER(merging.max_group_elements), {-1, kWork});
#undef MEMBER
  return cases;
}

TEST_F(SolverLimits, ImpossibleLimitsAreRefused) {
  const TraceText text("buffer x 64 persistent\nmicro\nf - y = x\n");
  for (const Case& each : impossible_limits()) {
    PlanOptions options = options_;
    each.change(options.solver);
    try {
      make_plan(text.trace, options);
      ADD_FAILURE() << each.member;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("PlanOptions::solver: " + each.member + " is "),
                                      HasSubstr("allowed: " + each.allowed)));
    }
  }
}

TEST_F(SolverLimits, TheLeastAndTheGreatestLimitsArePossible) {
  const TraceText text("buffer x 64 persistent\nbuffer out 64 output\nmicro\nf - y = x\nb - out = y\n");
  PlanOptions options = options_;
  options.solver.offload = {.min_evaluations = 1 << 30, .max_evaluations = 1 << 30};
  options.solver.recompute.accepted_cost_ratio = 1;
  options.solver.placement_effort = 0;
  EXPECT_TRUE(make_plan(text.trace, options).fits);
  options.solver = {};
  options.solver.placement_effort = int64_t{1} << 40;
  options.solver.offload.evaluation_work = size_t{1} << 40;
  EXPECT_TRUE(make_plan(text.trace, options).fits);
}

}  // namespace
}  // namespace plimsoll
