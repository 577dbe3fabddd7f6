#include "plan/reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/trace_text.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Explain, NamesWhatBlocksHaveInCommon) {
  testing::TraceText text(R"(
buffer x 64 persistent
buffer g 64 output
buffer h0 1048576
buffer h1 1048576
micro
f layers.0 h0 = x
f layers.0 y0 = h0
f layers.1 h1 = y0
f layers.1 y1 = h1
b layers.1 g <- y1 h1
b layers.0 g <- y0 h0
)");
  for (int block : {0, 1})
    text.trace.buffers[text["h" + std::to_string(block)]].label = "mm in layers." + std::to_string(block) + ".mlp";
  CostModel cost;
  cost.overhead_seconds = 2e-3;
  const TrainingGraph graph = training_graph(text.trace, text.trace.segments[0], cost);
  KeptValues kept = keep_all(graph);
  EXPECT_TRUE(explain_recomputation(text.trace, graph, kept, 5).empty());
  for (const char* name : {"h0", "h1"}) kept[graph.value_of[text[name]]] = 0;
  const std::vector<Reason> reasons = explain_recomputation(text.trace, graph, kept, 5);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].decision, "recompute: mm in layers.*.mlp");
  EXPECT_THAT(reasons[0].why, AllOf(HasSubstr("2 values"), HasSubstr("2.00 MiB"), HasSubstr("recomputing takes 4 ms")));
}

TEST(Explain, TheRestIsSummedUp) {
  testing::TraceText text(R"(
buffer x 64 persistent
buffer g 64 output
micro
f - a = x
f - b = a
f - c = b
b - g <- c
b - g <- b
b - g <- a
)");
  CostModel cost;
  cost.overhead_seconds = 1e-3;
  const TrainingGraph graph = training_graph(text.trace, text.trace.segments[0], cost);
  const std::vector<Reason> reasons = explain_recomputation(text.trace, graph, KeptValues(graph.values.size(), 0), 1);
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_EQ(reasons[1].decision, "recompute: other values");
  EXPECT_THAT(reasons[1].why, HasSubstr("2 kinds of value"));
}

}  // namespace
}  // namespace plimsoll
