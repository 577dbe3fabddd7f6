#include "run/op_times.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "device/cpu_backend.h"
#include "plan/cost.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/learned_workspace.h"

namespace plimsoll {
namespace {

Trace small_step() {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  config.norm = "layernorm";
  return record_step(decoder_step(config, 2, 16), {});
}

TEST(OpTimes, EachDistinctOpHasATimeOnce) {
  const Trace trace = small_step();
  OpTimes times(1);
  const int count = times.measure(trace, generic_cost_model(), 10, 1 << 30);
  EXPECT_GT(count, 10);
  EXPECT_LT(static_cast<size_t>(count), trace.ops.size());  // three layers alike
  for (const Op& op : trace.ops) {
    if (op.phase == Phase::initialize) continue;
    ASSERT_TRUE(times.find(op)) << op.name;
    EXPECT_GT(*times.find(op), 0);
  }
  EXPECT_EQ(times.measure(trace, generic_cost_model(), 10, 1 << 30), 0);
  // Who wants them newer has them timed again.
  EXPECT_EQ(times.measure(trace, generic_cost_model(), 10, 1 << 30, unix_seconds_now() + 1000), count);
}

TEST(OpTimes, WhatIsTooLargeIsLeftOut) {
  OpTimes times(1);
  EXPECT_EQ(times.measure(small_step(), generic_cost_model(), 10, 0), 0);
  EXPECT_EQ(times.measure(small_step(), generic_cost_model(), 1e-6, 1 << 30), 0);
}

TEST(OpTimes, AFileIsReadBackAndADamagedOneIsNothingKnown) {
  std::string pattern = (std::filesystem::temp_directory_path() / "plimsoll-times-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path file = std::filesystem::path(pattern) / "made" / "times.json";
  OpTimes times(1), read(1), others(2);
  times.measure(small_step(), generic_cost_model(), 10, 1 << 30);
  times.save(file);
  read.load(file);
  EXPECT_EQ(read.size(), times.size());
  others.load(file);  // of another number of threads
  EXPECT_EQ(others.size(), 0u);
  for (const char* text :
       {"", "[]", "{\"machine\": 3}", "{\"times\": {}", "{\"machine\":\"x\",\"threads\":1,\"times\":[1]}"}) {
    std::ofstream(file) << text;
    OpTimes damaged(1);
    damaged.load(file);
    EXPECT_EQ(damaged.size(), 0u) << text;
  }
  std::filesystem::remove_all(pattern);
}

TEST(OpTimes, PredictionsGoByThem) {
  const Trace trace = small_step();
  CostModel model = generic_cost_model();
  model.timed = [](const Op& op) { return op.phase == Phase::forward ? std::optional(0.5) : std::nullopt; };
  const Op& forward = trace.ops[trace.segment("micro")->begin];
  EXPECT_EQ(seconds_of(model, forward), 0.5);
  EXPECT_LT(seconds_of(model, trace.ops.back()), 0.5);
}

TEST(LearnedWorkspace, ProbingFindsWhatKernelsTake) {
  const Trace trace = small_step();
  LearnedWorkspace workspace([](const Op&) { return std::nullopt; });
  workspace.probe(trace, 1 << 30, cpu_backend());
  const WorkspaceModel model = workspace.model();
  int64_t most = 0;
  for (const Op& op : trace.ops) most = std::max(most, model(op).value_or(0));
  EXPECT_GT(most, 0);  // attention, for one
  LearnedWorkspace none([](const Op&) { return std::nullopt; });
  none.probe(trace, 0, cpu_backend());
  for (const Op& op : trace.ops) EXPECT_EQ(none.model()(op).value_or(0), 0);
}

}  // namespace
}  // namespace plimsoll
