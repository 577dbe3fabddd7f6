// Tests the costs of regions' choices against a timeline of the whole segment for each.
#include "plan/recompute/region_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/random_trace.h"

namespace plimsoll {
namespace {

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
