#include "plan/search/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/passes/pipeline.h"
#include "plan/random_trace.h"
#include "plan/search/choice_bytes.h"
#include "plan/search/recompute_regions.h"
#include "plan/search/recompute_search.h"

namespace plimsoll {
namespace {

TEST(MinCut, TheNarrowestEdgeOfAPath) {
  MinCut cut(4);
  cut.add_edge(0, 2, 7);
  cut.add_edge(2, 3, 4);
  cut.add_edge(3, 1, 9);
  EXPECT_EQ(cut.solve(0, 1), 4);
  EXPECT_TRUE(cut.on_source_side(2));
  EXPECT_FALSE(cut.on_source_side(3));
}

// Against every way to cut small random graphs.
TEST(MinCut, IsTheLeastOfAllCuts) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int nodes = 2 + static_cast<int>(random() % 7);
    std::vector<std::array<int, 3>> edges;
    MinCut cut(nodes);
    for (int i = 0, n = static_cast<int>(random() % 24); i < n; ++i) {
      const std::array<int, 3> edge = {static_cast<int>(random() % nodes), static_cast<int>(random() % nodes),
                                       static_cast<int>(random() % 20)};
      edges.push_back(edge);
      cut.add_edge(edge[0], edge[1], edge[2]);
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int set = 0; set < (1 << nodes); ++set) {
      if (!(set & 1) || (set & 2)) continue;  // node 0 is the source, node 1 the sink
      int64_t cost = 0;
      for (const auto& [from, to, capacity] : edges)
        if ((set >> from & 1) && !(set >> to & 1)) cost += capacity;
      least = std::min(least, cost);
    }
    const int64_t found = cut.solve(0, 1);
    EXPECT_EQ(found, least);
    int64_t cost = 0;
    for (const auto& [from, to, capacity] : edges)
      if (cut.on_source_side(from) && !cut.on_source_side(to)) cost += capacity;
    EXPECT_EQ(cost, least);
  }
}

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

struct Naive {
  int64_t held = 0, peak = 0, cost = 0;
};

// Returns the region of each op of the segment: in backward, the last region that is not done yet; -1: none.
std::vector<int32_t> regions_of_ops(const TrainingGraph& graph, const std::vector<Region>& regions) {
  const int32_t begin = graph.segment.begin;
  std::vector<int32_t> region(graph.segment.end - begin, 0);
  for (size_t r = 0; r < regions.size(); ++r)
    for (int32_t s = regions[r].begin; s < regions[r].end; ++s)
      region[graph.steps[s].op - begin] = static_cast<int32_t>(r);
  int32_t active = -1;
  for (int32_t op = graph.segment.end; op-- > graph.first_backward;) {
    for (size_t r = 0; r < regions.size(); ++r)
      for (int32_t v : regions[r].values)
        if (graph.values[v].needed() && graph.values[v].uses.back() >= op)
          active = std::max(active, static_cast<int32_t>(r));
    region[op - begin] = active;
  }
  return region;
}

Naive weigh(const TrainingGraph& graph, const ChoiceBytes& bytes, const RegionPartition& partition, size_t r,
            const RegionChoice& choice) {
  std::vector<char> shared(graph.values.size(), 1), chosen(graph.values.size(), 0);
  for (const Region& region : partition.regions)
    for (int32_t v : region.values) shared[v] = 0;
  const auto base = bytes.timeline(keep_all(graph), shared);
  KeptValues kept = keep_all(graph);
  for (int32_t v : partition.regions[r].values) {
    kept[v] = 0;
    chosen[v] = 1;
  }
  Naive result;
  for (const auto* list : {&choice.kept, &choice.foreign})
    for (int32_t v : *list) {
      kept[v] = 1;
      result.held += graph.values[v].bytes;
    }
  const std::vector<int32_t> region = regions_of_ops(graph, partition.regions);
  const auto line = bytes.timeline(kept, chosen);
  result.cost = line.cost;
  for (const auto& tick : line.ticks) {
    const int32_t at = tick.op - graph.segment.begin;
    if (region[at] != static_cast<int32_t>(r)) continue;
    const int64_t fixed = tick.step < 0 ? bytes.fixed_at(tick.op) : bytes.fixed_before(tick.op);
    result.peak = std::max(result.peak, tick.bytes + base.ticks[at].bytes + fixed);
  }
  return result;
}

TEST(RegionCosts, AreThoseOfATimelineEach) {
  int evaluated = 0, rebuilt = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    testing::RandomTraceOptions options;
    options.blocks = 2 + static_cast<int>(random() % 5);
    options.ops_a_block = 3 + static_cast<int>(random() % 8);
    options.accumulate = random() % 2;
    testing::TraceText text(testing::random_step(random, options));
    for (Op& op : text.trace.ops)
      if (random() % 3 == 0) op.workspace_bytes = 64 * static_cast<int64_t>(random() % 20);
    std::vector<TrainingGraph> graphs;
    for (const Segment& segment : text.trace.segments) {
      if (segment.kind != SegmentKind::micro && segment.kind != SegmentKind::accumulate) continue;
      TrainingGraph graph = training_graph(text.trace, segment, generic_cost_model());
      if (graphs.empty() || same_shape(graphs.front(), graph)) graphs.push_back(std::move(graph));
    }
    std::vector<ChoiceBytes> bytes;
    for (const TrainingGraph& graph : graphs) bytes.emplace_back(text.trace, graph);
    for (const int32_t blocks : {1, 2}) {
      RegionPartition partition;
      partition.regions = regions_of(text.trace, graphs.front(), blocks);
      partition.choices = choices_of(graphs.front(), partition.regions);
      evaluate_regions(graphs, bytes, partition);
      ASSERT_EQ(partition.evaluated.size(), partition.regions.size());
      for (size_t r = 0; r < partition.regions.size(); ++r)
        for (size_t c = 0; c < partition.choices[r].size(); ++c) {
          Naive most;
          for (size_t g = 0; g < graphs.size(); ++g) {
            const Naive each = weigh(graphs[g], bytes[g], partition, r, partition.choices[r][c]);
            most.peak = std::max(most.peak, each.peak);
            most.held = std::max(most.held, each.held);
            if (g == 0) most.cost = each.cost;
          }
          const RegionPartition::EvaluatedChoice& found = partition.evaluated[r][c];
          EXPECT_EQ(found.peak, most.peak) << "region " << r << ", choice " << c;
          EXPECT_EQ(found.held, most.held);
          EXPECT_EQ(found.cost, most.cost);
          ++evaluated;
          rebuilt += found.cost > 0;
        }
    }
  }
  EXPECT_GE(evaluated, 1000);
  EXPECT_GE(rebuilt, 300);
}

}  // namespace
}  // namespace plimsoll
