#include "plan/recompute/min_cut.h"

#include <gtest/gtest.h>

#include <random>

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

}  // namespace
}  // namespace plimsoll
