// Tests the recompute pass, and the search for values to recompute.
#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/passes/pipeline.h"
#include "plan/placement/validator.h"
#include "plan/random_trace.h"
#include "plan/search/recompute_search.h"
#include "plimsoll/error.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using testing::random_step;
using testing::results_of;
using testing::TraceText;

// Costs in picoseconds, whole numbers: one for each byte that an op moves, and an overhead.
CostModel test_cost() {
  CostModel cost;
  cost.overhead_seconds = 10e-12;
  for (auto& kind : cost.rates) kind.fill({0, 1e12});
  return cost;
}

Trace with_blocks_dropped(const Trace& trace, const std::string& module = "") {
  const RecomputeSearch search(trace, test_cost());
  const RecomputeSolution answer = search.checkpoint_blocks(module);
  std::vector<RecomputeChoice> choices;
  for (const TrainingGraph& graph : search.graphs()) choices.push_back({&graph, answer.kept});
  return recompute(trace, choices);
}

// Live bytes of the segments that train, persistent buffers left out: an independent count.
int64_t live_peak(const Trace& trace) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  int64_t peak = 0;
  for (const Segment& segment : trace.segments) {
    if (segment.kind == SegmentKind::update) continue;
    for (int32_t op = segment.begin; op < segment.end; ++op) {
      int64_t live = trace.ops[op].workspace_bytes;
      for (size_t b = 0; b < trace.buffers.size(); ++b)
        if (!trace.buffers[b].persistent && lifetimes[b].live_at(op)) live += placed_bytes(trace.buffers[b].bytes);
      peak = std::max(peak, live);
    }
  }
  return peak;
}

int64_t recomputed_cost_of_micro(const Trace& trace) {
  const Segment* segment = trace.segment(SegmentKind::micro);
  int64_t cost = 0;
  for (int32_t i = segment->begin; i < segment->end; ++i)
    if (trace.ops[i].recomputed) cost += std::llround(seconds_of(test_cost(), trace.ops[i]) * 1e12);
  return cost;
}

TEST(Recompute, DropsWhatABlockSavedAndRebuildsItWhereItIsUsed) {
  const TraceText text(testing::kTwoBlocks);
  const Trace scheduled = with_blocks_dropped(text.trace);
  std::vector<std::string> names;
  for (const Op& op : scheduled.ops) names.push_back((op.recomputed ? "again " : "") + op.name);
  EXPECT_THAT(
      names, ::testing::ElementsAre("make_h0", "make_y0", "make_h1", "make_y1", "again make_h1", "again make_y1",
                                    "make_d1", "make_g1", "again make_h0", "make_d0", "make_g0", "make_w1", "make_w0"));
  EXPECT_EQ(lifetimes_of(scheduled)[text["h0"]].death, 2);  // read by y0, then gone
  EXPECT_EQ(scheduled.segments[1].end - scheduled.segments[1].begin, 2);
  EXPECT_EQ(results_of(scheduled), results_of(text.trace));
}

// One of two stacks of blocks; a name with the same beginning is another stack.
TEST(Recompute, DropsTheBlocksOfOneModule) {
  const TraceText text(R"(
buffer x 64 persistent
micro
f eye.0 a = x
f eye.0 b = a
f llm.0 c = b
f llm.0 d = c
f llm2.0 e = d
f llm2.0 f = e
b llm2.0 df = f e
b llm.0 dd = df d c
b eye.0 db = dd b a
)");
  const auto again = [&](const std::string& module) {
    std::string names;
    for (const Op& op : with_blocks_dropped(text.trace, module).ops)
      if (op.recomputed) names += op.name.back();
    return names;
  };
  EXPECT_EQ(again("llm"), "c");
  EXPECT_EQ(again("eye"), "a");
  EXPECT_EQ(again(""), "efca");
  EXPECT_EQ(again("ear"), "");
}

TEST(Recompute, RandomOpsKeepTheirNumbers) {
  const TraceText text(R"(
buffer x 64 persistent
micro
f layers.0 random m = x
f layers.0 y = m x
f layers.1 z = y
b layers.1 dz = z
b layers.0 dy = dz m
)");
  std::vector<int64_t> ids;
  for (const Op& op : with_blocks_dropped(text.trace).ops)
    if (op.random_id >= 0) ids.push_back(op.random_id);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 0}));
}

TEST(Recompute, WhatUpdatesSomethingOutsideRunsOnce) {
  const TraceText text(R"(
buffer x 64 persistent
buffer statistics 64 persistent
micro
f layers.0 m = x
f layers.0 statistics <- m
f layers.0 y = m statistics
f layers.1 z = y
b layers.1 dz = z
b layers.0 dm = dz m y
)");
  int updates = 0;
  for (const Op& op : with_blocks_dropped(text.trace).ops) updates += op.name == "make_statistics";
  EXPECT_EQ(updates, 1);
}

TEST(Recompute, AnInputThatChangedMeanwhileIsNotReadAgain) {
  const TraceText text(R"(
buffer x 64 persistent
micro
f - s = x
f layers.0 m = s
f layers.0 y = m
f - s <- y
f layers.1 z = s
b layers.1 dz = z
b layers.0 dm = dz m
)");
  for (const Op& op : with_blocks_dropped(text.trace).ops) EXPECT_FALSE(op.recomputed && op.name == "make_m");
}

TEST(Recompute, AValueWrittenInPlaceIsRebuiltWhole) {
  const TraceText text(R"(
buffer x 64 persistent
buffer out 64 persistent
micro
f layers.0 m = x
f layers.0 m <- x
f layers.0 y = m
f layers.1 z = y
b layers.1 dz = z
b layers.0 out <- dz m
)");
  const Trace scheduled = with_blocks_dropped(text.trace);
  EXPECT_EQ(results_of(scheduled), results_of(text.trace));
  int again = 0;
  for (const Op& op : scheduled.ops) again += op.recomputed && op.name == "make_m";
  EXPECT_EQ(again, 2);
}

// Tries every choice of kept values, by carrying it out.
int64_t cheapest_by_exhaustion(const Trace& trace, const RecomputeSearch& search, int64_t limit) {
  const TrainingGraph& graph = search.graphs().front();
  int64_t best = std::numeric_limits<int64_t>::max();
  for (uint32_t set = 0; set < (1u << graph.values.size()); ++set) {
    KeptValues kept(graph.values.size());
    for (size_t v = 0; v < kept.size(); ++v) kept[v] = (set >> v) & 1;
    try {
      const Trace scheduled = recompute(trace, {{&graph, kept}});
      if (live_peak(scheduled) <= limit) best = std::min(best, recomputed_cost_of_micro(scheduled));
    } catch (const InternalError&) {  // leaves out values that cannot be recomputed
    }
  }
  return best;
}

TEST(RecomputeSearch, IsExactOnSmallGraphs) {
  std::mt19937 random(7);
  int graphs = 0, limits = 0;
  while (graphs < 60) {
    const TraceText text(random_step(random, {.blocks = 2, .ops_a_block = 3}));
    const Trace trace = prepare_trace(text.trace);
    const RecomputeSearch search(trace, test_cost());
    if (search.graphs().front().values.size() > 9 || search.graphs().front().values.size() < 3) continue;
    ++graphs;
    const int64_t most = search.keep_all_solution().peak, least = search.min_memory_solution().peak;
    EXPECT_EQ(cheapest_by_exhaustion(trace, search, least - 1), std::numeric_limits<int64_t>::max());
    for (int64_t limit : {least, (least + most) / 2, most - 1, most}) {
      const auto answer = search.cheapest(limit);
      if (limit < least) continue;
      ASSERT_TRUE(answer);
      EXPECT_TRUE(answer->exact);
      EXPECT_LE(answer->peak, limit);
      EXPECT_EQ(answer->cost, cheapest_by_exhaustion(trace, search, limit));
      limits += answer->cost > 0;
    }
  }
  EXPECT_GT(limits, 50);  // limits at which a value had to be recomputed
}

// If every choice was tried, no choice is cheaper than the plan's.
TEST(RecomputeSearch, TheBoundOfAnExactPlanIsItsTime) {
  const TraceText text(R"(
buffer x 64 persistent
buffer out 64 persistent
buffer h 4096
buffer y 2048
micro
f layers.0 h = x
f layers.0 y = h
f layers.1 m = y
f layers.1 z = m
b layers.1 dz = z m
b layers.0 out <- dz y h
)");
  PlanOptions options;
  options.cost = test_cost();
  const Planner planner(text.trace, options);
  const Plan plan = planner.plan(planner.plan({}).peak_bytes - 1);
  EXPECT_TRUE(plan.fits);
  EXPECT_GT(plan.time.recompute, 0);
  EXPECT_DOUBLE_EQ(plan.time.recompute_lower_bound, plan.time.recompute);
}

// The bound is below every choice, found by the search or not.
TEST(RecomputeSearch, TheBoundHoldsForEveryChoice) {
  std::mt19937 random(8);
  for (int graphs = 0; graphs < 40;) {
    const TraceText text(random_step(random, {.blocks = 2, .ops_a_block = 3, .hazards = graphs % 2 == 0}));
    const Trace trace = prepare_trace(text.trace);
    const RecomputeSearch search(trace, test_cost());
    const TrainingGraph& graph = search.graphs().front();
    if (graph.values.size() > 9 || graph.values.size() < 3 || graph.first_backward >= graph.segment.end) continue;
    ++graphs;
    const ChoiceBytes bytes(trace, graph);
    for (int step = 0; step <= 8; ++step) {
      const int64_t least = search.min_memory_solution().peak, most = search.keep_all_solution().peak;
      const int64_t limit = least + (most - least) * step / 8;
      const int64_t cheapest = cheapest_by_exhaustion(trace, search, limit);
      for (int32_t at = graph.segment.begin; at < graph.segment.end; ++at)
        EXPECT_LE(recompute_cost_lower_bound(graph, at, limit - bytes.fixed_at(at) - mandatory_live_bytes(graph, at)),
                  cheapest);
    }
  }
}

// Under the limit the large value or the eight small ones can be kept. To make the large one takes twice as long as to
// make a small one.
TEST(RecomputeSearch, KeepsTheValuesThatSaveTheMostTimePerByte) {
  std::string buffers = "buffer x 4096 persistent\nbuffer out 64 output\nbuffer large 4096\nbuffer z 8192\n";
  std::string forward = "f layers.0 large = x\n", small;
  for (int i = 0; i < 8; ++i) {
    const std::string name = " s" + std::to_string(i);
    buffers += "buffer" + name + " 64\n";
    forward += "f layers.0" + name + " = x\n";
    small += name;
  }
  const TraceText step(buffers + "micro\n" + forward +
                       "f layers.1 z = x\nb layers.1 dz = z\nb layers.0 out = dz large" + small + "\n");
  for (const size_t decisions : {size_t{0}, size_t{12}}) {
    const RecomputeSearch search(step.trace, test_cost(),
                                 {.max_exhaustive_decisions = decisions, .max_region_choices = 1});
    const std::optional<RecomputeSolution> answer = search.cheapest(search.keep_all_solution().peak - int64_t{8} * 64);
    ASSERT_TRUE(answer) << decisions;
    EXPECT_EQ(answer->cost, 4096 + 4096 + 10) << decisions;
  }
}

// Costs of a large model stay in range: all values that can be dropped are dropped.
TEST(RecomputeSearch, GigabytesAndSecondsDoNotOverflow) {
  std::string text = "buffer x 64 persistent\n";
  for (int b = 0; b < 20; ++b)
    for (const char* name : {"h", "y"})
      text += "buffer " + std::string(name) + std::to_string(b) + " " + (name[0] == 'h' ? "4000000000" : "100000000") +
              "\n";
  text += "buffer g 64 output\nmicro\n";
  std::string input = "x";
  for (int b = 0; b < 20; ++b) {
    const std::string n = std::to_string(b), layer = "f layers." + n + " ";
    text += layer + "h" + n + " = " + input + "\n" + layer + "y" + n + " = h" + n + "\n";
    input = "y" + n;
  }
  for (int b = 20; b-- > 0;)
    text += "b layers." + std::to_string(b) + " g <- h" + std::to_string(b) + " y" + std::to_string(b) + "\n";
  const TraceText trace(text);
  CostModel cost = test_cost();
  cost.overhead_seconds = 0.5;
  const RecomputeSearch search(trace.trace, cost);
  EXPECT_GT(search.keep_all_solution().peak, int64_t{80'000'000'000});
  EXPECT_LT(search.min_memory_solution().peak, int64_t{15'000'000'000});
  EXPECT_GT(search.cheapest(int64_t{40'000'000'000})->lower_bound, 0);
}

// A gradient that forward makes is a value of the second segment, but not of the first, whose gradient outlives it.
TEST(RecomputeSearch, SegmentsOfDifferentShapeAreNotChosenForTogether) {
  const TraceText text(R"(
buffer x 64 persistent
buffer w 64 state
buffer h 4096
buffer h2 4096
buffer out 64 output
micro
f layers.0 g = x w
f layers.0 h = x
f layers.1 y = h
b layers.1 out <- y h
accumulate
f layers.0 d = x w
f layers.0 h2 = x
f layers.1 y2 = h2
b layers.1 out <- y2 h2
b layers.0 g <- d
update
u - w <- g
)");
  PlanOptions options;
  options.cost = test_cost();
  for (Choice choice : {Choice::off, Choice::on, Choice::automatic}) {
    options.gradient_checkpointing = choice;
    options.budget.device = 1;
    const Planner planner(text.trace, options);
    EXPECT_EQ(results_of(planner.plan().trace), results_of(text.trace));
    options.budget.device = planner.minimum_budget();
    EXPECT_TRUE(make_plan(text.trace, options).fits);
  }
}

// Larger graphs: every plan is sound (the planner asks the validator), fits, computes the same, and costs what the
// search said; a tighter budget never costs less. One planner answers all budgets of a step, as make_plan does each.
// In four parts, so that two processes share them.
class RandomRecomputation : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomRecomputation, UnderTighterAndTighterBudgets) {
  std::mt19937 random(GetParam());
  int recomputed = 0;
  for (int round = 0; round < testing::rounds(250); ++round) {
    const std::string step = random_step(random, {.blocks = 1 + static_cast<int>(random() % 7),
                                                  .ops_a_block = 2 + static_cast<int>(random() % 8),
                                                  .accumulate = random() % 2 == 0,
                                                  .hazards = random() % 3 != 0});
    SCOPED_TRACE(step);
    const TraceText text(step);
    PlanOptions options;
    options.cost = test_cost();
    const Planner planner(text.trace, options);
    EXPECT_FALSE(planner.plan(1).fits);
    const Plan whole = planner.plan({});
    const auto expected = results_of(text.trace);
    double before = 0;
    for (int i = 0; i < 4; ++i) {
      options.budget.device = whole.peak_bytes - (whole.peak_bytes - planner.minimum_budget()) * i / 3;
      const Plan plan = planner.plan(options.budget.device);
      if (round % 20 == 0) {
        EXPECT_EQ(plan_hash(plan), plan_hash(make_plan(text.trace, options)));
      }
      ASSERT_TRUE(plan.fits);
      EXPECT_LE(plan.peak_bytes, *options.budget.device);
      EXPECT_EQ(results_of(plan.trace), expected);
      EXPECT_LE(plan.time.recompute_lower_bound, plan.time.recompute);
      EXPECT_NEAR(plan.time.recompute * 1e12, static_cast<double>(recomputed_cost_of_micro(plan.trace)), 0.5);
      EXPECT_GE(plan.time.recompute, before - 1e-15);
      before = plan.time.recompute;
      recomputed += plan.checkpointed;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(recomputed, testing::rounds(250));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRecomputation, ::testing::Values(9U, 10U, 11U, 12U));

// The search's count for a choice, without carrying it out, is the count of carrying it out.
TEST(ChoiceBytes, CountsWhatTheScheduleTakes) {
  std::mt19937 random(10);
  for (int round = 0; round < 300; ++round) {
    const TraceText text(random_step(random, {.blocks = 3, .ops_a_block = 5}));
    const Trace trace = prepare_trace(text.trace);
    const RecomputeSearch search(trace, test_cost());
    const TrainingGraph& graph = search.graphs().front();
    const ChoiceBytes bytes(trace, graph);
    for (int i = 0; i < 5; ++i) {
      KeptValues kept = keep_all(graph);
      for (size_t v = 0; v < kept.size(); ++v)
        if (graph.values[v].repeatable && random() % 2) kept[v] = !kept[v];
      Trace scheduled;
      try {
        scheduled = recompute(trace, {{&graph, kept}});
      } catch (const InternalError&) {
        continue;
      }
      EXPECT_EQ(bytes.peak(kept), live_peak(scheduled));
      EXPECT_EQ(bytes.cost(kept), recomputed_cost_of_micro(scheduled));
      EXPECT_EQ(results_of(scheduled), results_of(trace));
    }
  }
}

}  // namespace
}  // namespace plimsoll
