// Tests contents of a plan's memory: the bytes of parameters, gradients and optimizer state, and the largest buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/placement/assign_offsets.h"
#include "plan/random_trace.h"
#include "plan/trace_text.h"
#include "plimsoll/plan.h"
#include "plimsoll/planner.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::TraceText;

// One parameter `w` with its gradient `g` and its moment `m`, two activations and scratch.
TraceText step() {
  TraceText text(
      "buffer w 640 state\nbuffer m 1280 state\nbuffer x 64 persistent\nbuffer h 2560\nbuffer g 640\n"
      "micro\nf - h = x w\nb - d = h\nb - g = d x\nupdate\nu - w,m <- g\n");
  text.trace.buffers[text["w"]].role = Role::parameter;
  text.trace.buffers[text["m"]].role = Role::optimizer_state;
  text.trace.buffers[text["g"]].role = Role::gradient;
  text.trace.buffers[text["h"]].role = Role::activation;
  return text;
}

TEST(ModelBytes, AreThoseOfParametersGradientsAndState) {
  EXPECT_EQ(peak_model_bytes(assign_offsets(step().trace, {})), 640 + 1280 + 640);
}

TEST(ModelBytes, EachRoleCountsOnItsOwn) {
  for (const auto& [name, bytes] : {std::pair{"w", 1280 + 640}, {"m", 640 + 640}, {"g", 640 + 1280}}) {
    TraceText text = step();
    text.trace.buffers[text[name]].role = Role::temporary;
    EXPECT_EQ(peak_model_bytes(assign_offsets(text.trace, {})), bytes) << name;
  }
}

TEST(ModelBytes, BuffersInHostMemoryDoNotCount) {
  TraceText text = step();
  text.trace.buffers[text["m"]].memory = Memory::host;
  text.trace.ops.back().on_host = true;
  EXPECT_EQ(peak_model_bytes(assign_offsets(text.trace, {})), 640 + 640);
}

// Two gradients that are not live together count once.
TEST(ModelBytes, AreThePeakNotTheSum) {
  TraceText text(
      "buffer x 64 persistent\nbuffer a 640\nbuffer b 1280\nmicro\nf - a = x\nf - c = a\nf - b = c\nf - d = b\n");
  for (const char* name : {"a", "b"}) text.trace.buffers[text[name]].role = Role::gradient;
  EXPECT_EQ(peak_model_bytes(assign_offsets(text.trace, {})), 1280);
}

std::vector<std::string> labels(const std::vector<Resident>& residents) {
  std::vector<std::string> names;
  for (const Resident& each : residents) names.push_back(each.label);
  return names;
}

TEST(LargestAtPeak, AreTheBuffersThatAreLiveLargestFirst) {
  TraceText text = step();
  text.trace.ops[1].workspace_bytes = 1920;
  const Plan plan = assign_offsets(text.trace, {});
  EXPECT_EQ(plan.peak_op, 1);
  // `g` is not live there. Of equal size the first stays first: `x` and `d` have 64 bytes.
  EXPECT_THAT(labels(largest_at_peak(plan, 9)), ElementsAre("h", "scratch of make_d", "m", "w", "x", "d"));
  EXPECT_THAT(labels(largest_at_peak(plan, 3)), ElementsAre("h", "scratch of make_d", "m"));
  const std::vector<Resident> two = largest_at_peak(plan, 2);
  EXPECT_EQ(two[0].bytes, 2560);
  EXPECT_EQ(two[0].role, Role::activation);
  EXPECT_EQ(two[1].bytes, 1920);
  EXPECT_EQ(two[1].role, Role::workspace);
}

TEST(LargestAtPeak, TheFirstBufferOfTheTraceIsOneOfThem) {
  TraceText text = step();
  EXPECT_EQ(text["w"], 0);
  EXPECT_THAT(labels(largest_at_peak(assign_offsets(text.trace, {}), 9)), ::testing::Contains("w"));
}

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
