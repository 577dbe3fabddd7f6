// Tests graphs of training segments: the segments that one search may serve.
#include "plan/passes/training_graph.h"

#include <gtest/gtest.h>

#include "plan/trace_text.h"
#include "plimsoll/cost_model.h"

namespace plimsoll {
namespace {

using testing::TraceText;

TrainingGraph graph_of(const std::string& ops) {
  const TraceText text("buffer x 64 persistent\nbuffer w 64 state\nmicro\n" + ops);
  return training_graph(text.trace, text.trace.segments[0], generic_cost_model());
}

constexpr const char* kOps = "f a h = x w\nf a y = h\nb a d = y\nb a g = d h\n";

TEST(SameShape, OfTheSameOps) {
  EXPECT_TRUE(same_shape(graph_of(kOps), graph_of(kOps)));
}

TEST(SameShape, NotOfMoreOps) {
  EXPECT_FALSE(same_shape(graph_of(kOps), graph_of("f a h = x w\nf a y = h\nf a z = y\nb a d = z y\nb a g = d h\n")));
}

TEST(SameShape, NotOfOtherOperands) {
  EXPECT_FALSE(same_shape(graph_of(kOps), graph_of("f a h = x w\nf a y = x\nb a d = y\nb a g = d h\n")));
}

TEST(SameShape, NotWhereAnotherValueIsSaved) {
  // The backward pass reads y in place of h.
  EXPECT_FALSE(same_shape(graph_of(kOps), graph_of("f a h = x w\nf a y = h\nb a d = y\nb a g = d y\n")));
}

TEST(SameShape, NotWhereAnOpMayNotBeRepeated) {
  TrainingGraph other = graph_of(kOps);
  other.steps[0].repeatable = !other.steps[0].repeatable;
  EXPECT_FALSE(same_shape(graph_of(kOps), other));
}

}  // namespace
}  // namespace plimsoll
