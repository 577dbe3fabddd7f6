// Tests that incrementally updated costs are those that are counted from the beginning.
#include "plan/recompute/recompute_cost.h"

#include <gtest/gtest.h>

#include <random>

#include "plan/passes/pipeline.h"
#include "plan/random_trace.h"
#include "plan/recompute/choice_bytes.h"
#include "plan/recompute/recompute_search.h"

namespace plimsoll {
namespace {

using testing::random_step;
using testing::TraceText;

TEST(RecomputeCost, IsThatOfTheChoiceWhateverIsKeptAndTakenBack) {
  std::mt19937 random(11);
  int saved_something = 0, taken_back = 0;
  for (int round = 0; round < 400; ++round) {
    const TraceText text(random_step(random, {.blocks = 1 + static_cast<int>(random() % 5),
                                              .ops_a_block = 2 + static_cast<int>(random() % 8),
                                              .hazards = random() % 3 != 0}));
    const Trace trace = prepare_trace(text.trace);
    const RecomputeSearch search(trace, generic_cost_model());
    const TrainingGraph& graph = search.graphs().front();
    const ChoiceBytes bytes(trace, graph);
    KeptValues kept = keep_all(graph);
    for (size_t v = 0; v < kept.size(); ++v)
      if (graph.values[v].repeatable && random() % 4) kept[v] = 0;
    kept = search.make_feasible(std::move(kept));
    RecomputeCost cost(graph, kept);
    ASSERT_EQ(cost.total(), bytes.cost(kept));
    for (size_t v = 0; v < kept.size(); ++v) {
      if (kept[v] || random() % 3 == 0) continue;
      const int64_t before = cost.total();
      kept[v] = 1;
      const int64_t saved = cost.keep(static_cast<int32_t>(v));
      EXPECT_EQ(cost.total(), bytes.cost(kept));
      EXPECT_EQ(saved, before - cost.total());
      saved_something += saved > 0;
      if (random() % 2) continue;
      kept[v] = 0;
      cost.undo();
      EXPECT_EQ(cost.total(), before);
      ++taken_back;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(saved_something, 400);
  EXPECT_GT(taken_back, 400);
}

}  // namespace
}  // namespace plimsoll
