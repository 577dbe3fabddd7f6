#include "plimsoll/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/random_trace.h"
#include "plan/trace_text.h"

namespace plimsoll {
namespace {

TEST(ModuleBytes, EachPartHasWhatBelongsToIt) {
  testing::TraceText text(R"(
buffer x 64 persistent
buffer w 128 state
buffer m 256 state
buffer v 512 state
buffer h 1024
buffer g 2048 output
micro
f vision.blocks.0 h = x w
f llm.norm y = h v
b llm.norm g <- y h
)");
  const auto is = [&](const char* name, Role role, const char* label) {
    text.trace.buffers[text[name]].role = role;
    text.trace.buffers[text[name]].label = label;
  };
  is("x", Role::input, "x");
  is("w", Role::parameter, "vision.blocks.0.weight");
  is("m", Role::optimizer_state, "optimizer.exp_avg.vision.blocks.0.weight");
  is("v", Role::parameter, "llm.norm.weight");
  is("g", Role::gradient, "gradient of llm.norm.weight");
  PlanOptions options;
  options.budget.context = 4096;
  options.gradient_checkpointing = Choice::off;
  const Plan plan = make_plan(text.trace, options);
  const std::vector<ModuleBytes> parts = bytes_by_module(plan);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].module, "llm");
  EXPECT_EQ(parts[0].bytes.parameters, 512);
  EXPECT_EQ(parts[0].bytes.gradients, 2048);
  EXPECT_EQ(parts[1].module, "vision");
  EXPECT_EQ(parts[1].bytes.parameters, 128);
  EXPECT_EQ(parts[1].bytes.optimizer_state, 256);
  EXPECT_EQ(parts[1].bytes.activations, 1024);
  EXPECT_EQ(parts[2].module, "");
  EXPECT_EQ(parts[2].bytes.inputs, 64);
  EXPECT_EQ(parts[2].bytes.context, 4096);
}

// For any trace, nothing is counted twice, nothing is left out.
TEST(ModuleBytes, TheyAddUpToThePeak) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    testing::TraceText text(testing::random_step(random, {}));
    testing::with_roles(text.trace);
    const Plan plan = make_plan(text.trace);
    Breakdown sum;
    for (const auto& [module, bytes] : bytes_by_module(plan)) {
      sum.parameters += bytes.parameters;
      sum.gradients += bytes.gradients;
      sum.optimizer_state += bytes.optimizer_state;
      sum.activations += bytes.activations;
      sum.inputs += bytes.inputs;
      sum.workspace += bytes.workspace;
      sum.context += bytes.context;
      sum.fragmentation += bytes.fragmentation;
    }
    EXPECT_EQ(sum.parameters, plan.breakdown.parameters);
    EXPECT_EQ(sum.gradients, plan.breakdown.gradients);
    EXPECT_EQ(sum.optimizer_state, plan.breakdown.optimizer_state);
    EXPECT_EQ(sum.activations, plan.breakdown.activations);
    EXPECT_EQ(sum.inputs, plan.breakdown.inputs);
    EXPECT_EQ(sum.workspace, plan.breakdown.workspace);
    EXPECT_EQ(sum.total(), plan.peak_bytes);
  }
}

}  // namespace
}  // namespace plimsoll
