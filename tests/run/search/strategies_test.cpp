#include "run/search/open_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Fake plans: a strategy's minimum budget and its step time. Whole parameters take a share of the difference.
struct Plans {
  int64_t needs_2 = 10 * GiB, needs_3 = 2 * GiB;
  double seconds_2 = 1, seconds_3 = 2, seconds_mixed = 1.5;
  bool recomputes_2 = false, exchanges_overlap = false;
  std::vector<double> parts;   // one for each plan
  int64_t minimum_budget = 0;  // of the last choice

  PlannedTraining choose(int64_t budget, Strategy strategy = Strategy::automatic) {
    TrainingOptions options;
    options.ranks.count = 4;
    options.ranks.strategy = strategy;
    const auto plan = [&](const TrainingOptions& one) {
      Found found;
      PlannedTraining& planned = found.planned;
      const bool third = one.ranks.strategy == Strategy::zero3;
      const double part = one.ranks.whole_part;
      parts.push_back(part);
      planned.settings.ranks.strategy = one.ranks.strategy;
      planned.settings.ranks.whole_part = part;
      planned.settings.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
      planned.settings.cost.exchanges_overlap = exchanges_overlap;
      planned.settings.cost.peer_link = 1;
      Op exchange;
      exchange.name = "plimsoll::all_gather_";
      exchange.link_bytes = 1;  // a second
      planned.plan.trace.ops = {exchange};
      planned.plan.trace.segments = {{SegmentKind::micro, 0, 1}};
      found.minimum_budget =
          third ? needs_3 + static_cast<int64_t>(part * static_cast<double>(needs_2 - needs_3)) : needs_2;
      planned.plan.fits = found.minimum_budget <= budget;
      planned.plan.checkpointed = !third && recomputes_2;
      planned.step_seconds = !third ? seconds_2 : part > 0 ? seconds_mixed : seconds_3;
      return found;
    };
    StrategyChoice choice(options, {.device = budget}, /*minimize_step_time=*/true);
    while (const auto next = choice.next()) choice.add(plan(*next));
    const PlannedTraining planned = std::move(choice).result().result();
    minimum_budget = planned.minimum_budget_bytes;
    return planned;
  }
};

TEST(Strategies, Zero2WhereAllParametersFit) {
  Plans plans;
  const PlannedTraining planned = plans.choose(16 * GiB);
  EXPECT_EQ(planned.settings.ranks.strategy, Strategy::zero2);
  EXPECT_THAT(plans.parts, ElementsAre(0));  // zero3 was not planned
}

TEST(Strategies, APartOfTheParametersIsWholeWhereThatIsFaster) {
  Plans plans;
  const PlannedTraining planned = plans.choose(6 * GiB);
  EXPECT_EQ(planned.settings.ranks.strategy, Strategy::zero3);
  EXPECT_DOUBLE_EQ(planned.settings.ranks.whole_part, 0.45);  // half of the difference is free, less a tenth
  EXPECT_EQ(plans.minimum_budget, 2 * GiB);
  ASSERT_FALSE(planned.settings.reasons.empty());
  EXPECT_THAT(planned.settings.reasons.back().why,
              AllOf(HasSubstr("zero2 does not fit: it needs at least 10.0 GiB"),
                    HasSubstr("45 % of the parameters' bytes"), HasSubstr("1.33 times as fast")));
}

TEST(Strategies, AllParametersAreSlicedWhereAPartWholeGainsNothing) {
  Plans plans;
  plans.seconds_mixed = 2.5;
  const PlannedTraining planned = plans.choose(6 * GiB);
  EXPECT_EQ(planned.settings.ranks.whole_part, 0);
  EXPECT_EQ(plans.parts.size(), 3u);
}

TEST(Strategies, WithoutRoomNoPartIsPlanned) {
  Plans plans;
  EXPECT_EQ(plans.choose(2 * GiB + 100).settings.ranks.strategy, Strategy::zero3);
  EXPECT_THAT(plans.parts, ElementsAre(0, 0));
}

TEST(Strategies, TheFasterOfTwoThatFit) {
  Plans plans;
  plans.recomputes_2 = true;
  EXPECT_EQ(plans.choose(16 * GiB).settings.ranks.strategy, Strategy::zero2);
  plans.seconds_2 = 3;
  EXPECT_EQ(plans.choose(16 * GiB).settings.ranks.strategy, Strategy::zero3);
}

// The plan of zero2 waits for its last exchange; the link is as slow as the test says.
TEST(Strategies, Zero3WhereItHidesExchanges) {
  for (const bool overlap : {false, true})
    for (const double seconds_3 : {0.5, 2.0}) {
      Plans plans;
      plans.seconds_3 = seconds_3;
      plans.exchanges_overlap = overlap;
      EXPECT_EQ(plans.choose(16 * GiB).settings.ranks.strategy,
                overlap && seconds_3 < 1 ? Strategy::zero3 : Strategy::zero2);
    }
}

TEST(Strategies, OneThatIsStatedIsTaken) {
  Plans plans;
  const PlannedTraining planned = plans.choose(6 * GiB, Strategy::zero3);
  EXPECT_EQ(planned.settings.ranks.whole_part, 0);
  EXPECT_EQ(plans.parts.size(), 1u);
}

}  // namespace
}  // namespace plimsoll
