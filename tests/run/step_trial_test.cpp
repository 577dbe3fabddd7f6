// Tests the times of ops in a step: which ops have one, what is refused, and how equal ops are counted.
#include "run/step_trial.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "device/available_memory.h"
#include "ops/libtorch_types.h"
#include "plimsoll/training.h"
#include "run/op_times.h"
#include "run/record_step.h"
#include "run/training_runs.h"
#include "stated_machine.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

constexpr int64_t kBytes = int64_t{1} << 30;

double stated_seconds(const Op& op) {
  return StatedMachine::kOverhead +
         std::max(op.flops / StatedMachine::kFlops, static_cast<double>(op.bytes_moved) / StatedMachine::kBytes);
}

// Returns the step of a linear layer whose loss is multiplied by `factor` of a drawn number.
Step linear_step(torch::Tensor (*factor)(const torch::Tensor&)) {
  Step step;
  step.model = [] { return std::make_shared<torch::nn::LinearImpl>(3, 2); };
  step.inputs = {{"x", {4, 3}, torch::kFloat32}, {"weight", {4}, torch::kFloat32}};
  step.loss = [factor](torch::nn::Module& module, const StepInputs& in) {
    auto& net = static_cast<torch::nn::LinearImpl&>(module);
    return (net.forward(in["x"]).square().mean(1) * factor(in["weight"])).mean();
  };
  return step;
}

TEST(StepTrial, EachOpOfAStepHasATime) {
  const Plan plan = make_plan(small_trace());
  const std::vector<OpInStep> ops = try_step(plan, {.micro_batches = 3}, 1, 10, kBytes);
  ASSERT_EQ(ops.size(), plan.trace.ops.size());
  for (const Segment& segment : plan.trace.segments)
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = plan.trace.ops[i];
      EXPECT_EQ(ops[i].runs, runs_in_step(plan.trace, segment.kind, 3, false)) << op.name;
      if (ops[i].runs > 0) {
        EXPECT_NEAR(ops[i].seconds, stated_seconds(op), 1e-12) << op.name;
      }
    }
}

TEST(StepTrial, TheMiddleHalfOfTheStepsCounts) {
  // A machine that is disturbed in a quarter of the steps, and fast in another.
  struct Disturbed : StatedMachine {
    double done(const MeasuredWork& work, double seconds) override {
      if (work.name == first) ++step;
      return StatedMachine::done(work, seconds) * (step % 4 == 0 ? 0.5 : step % 4 == 1 ? 10 : step % 4 == 2 ? 1 : 3);
    }
    std::string first;
    int step = 0;
  } machine;
  const MeasuringMachineScope scope(machine);
  const Plan plan = make_plan(record_step(linear_step([](const torch::Tensor& w) { return w; }), {}));
  const Segment& micro = *plan.trace.segment(SegmentKind::micro);
  std::map<std::string, int> names;
  for (int32_t i = micro.begin; i < micro.end; ++i) ++names[plan.trace.ops[i].name];
  machine.first = plan.trace.ops[micro.begin].name;
  ASSERT_EQ(names[machine.first], 1) << "it marks the beginning of a step";
  const std::vector<OpInStep> ops = try_step(plan, {}, 1, 10, kBytes);
  ASSERT_FALSE(ops.empty());
  EXPECT_EQ(machine.step % 4, 0);
  EXPECT_GE(machine.step, 8);
  for (int32_t i = micro.begin; i < micro.end; ++i)
    EXPECT_NEAR(ops[i].seconds, 2 * stated_seconds(plan.trace.ops[i]), 1e-12) << plan.trace.ops[i].name;
}

TEST(StepTrial, WhatDoesNotFitIsNotTried) {
  const Plan plan = make_plan(small_trace());
  EXPECT_TRUE(try_step(plan, {}, 1, 10, plan.arena_bytes - 1).empty());
  EXPECT_FALSE(try_step(plan, {}, 1, 10, plan.arena_bytes).empty());
  EXPECT_TRUE(try_step(plan, {}, 1, 0, kBytes).empty());
  Plan slow = plan;
  slow.time = {.micro = 3, .accumulate = 3};
  EXPECT_TRUE(try_step(slow, {}, 1, 10, kBytes).empty()) << "12 s are predicted for four steps";
  EXPECT_FALSE(try_step(slow, {}, 1, 13, kBytes).empty());
  EXPECT_TRUE(try_step(slow, {.micro_batches = 9}, 1, 35, kBytes).empty());
  EXPECT_FALSE(try_step(slow, {.micro_batches = 9}, 1, 37, kBytes).empty());
  Plan on_disk = plan;
  on_disk.disk_bytes = 1;
  EXPECT_TRUE(try_step(on_disk, {}, 1, 10, kBytes).empty());
  {
    const ScopedFakeHostMemory little([&] { return plan.peak_bytes - 1; });
    EXPECT_TRUE(try_step(plan, {}, 1, 10, kBytes).empty());
  }
  Plan with_others = plan;
  with_others.trace.ops.back().link_bytes = 1;
  EXPECT_TRUE(try_step(with_others, {}, 1, 10, kBytes).empty());
}

// Updates do nothing then, and take no time.
TEST(StepTrial, AStepThatSkipsItsUpdatesIsNotTimed) {
  const auto finite = [](const torch::Tensor& weight) { return weight; };
  const auto nan = [](const torch::Tensor& weight) { return (weight - 100).log(); };
  EXPECT_FALSE(try_step(make_plan(record_step(linear_step(finite), {})), {}, 1, 10, kBytes).empty());
  EXPECT_TRUE(try_step(make_plan(record_step(linear_step(nan), {})), {}, 1, 10, kBytes).empty());
}

// In the step of clips, a sample that does not count has no target. Here it has a loss that is no number.
TEST(StepTrial, EverySampleCounts) {
  Step step = linear_step([](const torch::Tensor& w) { return w; });
  step.inputs.push_back({kSampleMask, {4}, torch::kFloat32});
  const auto loss = step.loss;
  step.loss = [loss](torch::nn::Module& module, const StepInputs& in) {
    return loss(module, in) * (in[kSampleMask] - 0.999).log().sum();  // not a number for less than 1
  };
  EXPECT_FALSE(try_step(make_plan(record_step(step, {})), {}, 1, 10, kBytes).empty());
}

// Three layers alike have equal ops, of which a step runs some more often than others.
TEST(StepTrial, EqualOpsHaveTheMeanOfTheirRuns) {
  const Plan plan = make_plan(small_trace());
  const std::vector<Op>& ops = plan.trace.ops;
  std::vector<OpInStep> in_steps(ops.size());
  std::map<std::string, double> seconds, runs;
  int differ = 0;
  for (const Segment& segment : plan.trace.segments)
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      in_steps[i] = {1e-3 * (1 + i), runs_in_step(plan.trace, segment.kind, 3, false)};
      if (!ops[i].call || ops[i].phase == Phase::initialize || in_steps[i].runs == 0) continue;
      const std::string key = timing_key(ops[i]);
      differ += runs[key] > 0 && runs[key] != static_cast<double>(in_steps[i].runs);
      seconds[key] += in_steps[i].seconds * static_cast<double>(in_steps[i].runs);
      runs[key] += static_cast<double>(in_steps[i].runs);
    }
  EXPECT_GT(differ, 0);
  OpTimes times(1);
  EXPECT_TRUE(times.lacks(plan.trace, {}));
  EXPECT_EQ(times.record(plan.trace, in_steps), static_cast<int>(runs.size()));
  EXPECT_FALSE(times.lacks(plan.trace, {.micro_batches = 3}));
  EXPECT_TRUE(times.lacks(plan.trace, {}, unix_seconds_now() + 1000));
  EXPECT_EQ(times.record(plan.trace, in_steps), 0) << "all are known";
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 10, kBytes), 0) << "they would be replaced by times of ops alone";
  for (const Op& op : ops)
    if (const auto found = seconds.find(timing_key(op)); op.phase != Phase::initialize && found != seconds.end())
      EXPECT_NEAR(times.find(op).value_or(0), found->second / runs[found->first], 1e-9) << op.name;
}

}  // namespace
}  // namespace plimsoll
