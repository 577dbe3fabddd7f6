// Tests the file of a profile: every op that ran, in nested slices, together with the copies and the planned memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "run/training_runs.h"
#include "test_files.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::token_batch;

Step decoder() {
  DecoderConfig config;
  config.vocab_size = 128;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  return decoder_step(config, 2, 16);
}

TrainingOptions options_with_copies() {
  TrainingOptions options;
  options.threads = 1;
  options.accumulate = true;
  options.cost.host_bytes = 0;
  const int64_t whole = Training(decoder(), options).plan().peak_bytes;
  options.budget.host = int64_t{1} << 30;
  options.budget.device = whole / 2;
  return options;
}

std::vector<double> losses_of(Training& training, int steps) {
  torch::manual_seed(5);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i)
    losses.push_back(training.step({token_batch(2, 16, 128), token_batch(2, 16, 128)}, 1e-3).loss);
  return losses;
}

json json_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

// The file counts in microseconds, with three decimals.
int64_t nanoseconds(const json& number) {
  return std::llround(number.get<double>() * 1000);
}

std::vector<json> events(const json& profile, const char* kind, const std::string& category = "") {
  std::vector<json> found;
  for (const json& event : profile["traceEvents"])
    if (event["ph"] == kind && (category.empty() || event["cat"] == category)) found.push_back(event);
  return found;
}

std::vector<json> ops_of(const json& profile) {
  std::vector<json> ops;
  for (const json& event : events(profile, "X"))
    if (event["cat"] != "step" && event["cat"] != "segment" && event["cat"] != "copy") ops.push_back(event);
  return ops;
}

class Profile : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::filesystem::path file_ = folder_ / "profile.json";
};

TEST_F(Profile, EveryOpOfTheChosenStepsIsThereInOrderAndSlicesNest) {
  Training training(decoder(), options_with_copies());
  training.start();
  training.profile({.file = file_, .first_step = 2, .steps = 2});
  losses_of(training, 2);
  EXPECT_FALSE(std::filesystem::exists(file_));  // one of two is done
  losses_of(training, 3);
  const json profile = json_of(file_);
  ASSERT_TRUE(profile.is_object());
  const Trace& trace = training.plan().trace;
  std::vector<int32_t> expected;
  for (int step = 0; step < 2; ++step)
    for (const SegmentKind kind : {SegmentKind::micro, SegmentKind::accumulate, SegmentKind::update})
      for (int32_t i = trace.segment(kind)->begin; i < trace.segment(kind)->end; ++i) expected.push_back(i);
  std::vector<int32_t> ran;
  for (const json& op : ops_of(profile)) {
    const int32_t index = ran.emplace_back(op["args"]["op"]);
    EXPECT_EQ(op["name"], trace.ops[index].name);
    EXPECT_EQ(op["cat"], std::string(name_of(trace.ops[index].phase)));
    EXPECT_EQ(op["args"]["module"], trace.modules[trace.ops[index].module]);
    if (trace.ops[index].copy == CopyStage::none) {
      EXPECT_EQ(op["args"]["bytes"], trace.ops[index].bytes_moved);
    }
  }
  EXPECT_EQ(ran, expected);

  std::vector<std::string> steps, parts;
  for (const json& each : events(profile, "X", "step")) steps.push_back(each["name"]);
  for (const json& each : events(profile, "X", "segment")) parts.push_back(each["name"]);
  EXPECT_EQ(steps, (std::vector<std::string>{"step 2", "step 3"}));
  EXPECT_EQ(parts, (std::vector<std::string>{"inputs", "micro", "inputs", "accumulate", "update", "inputs", "micro",
                                             "inputs", "accumulate", "update"}));

  // On each row, slices are nested or disjoint. Sums follow from that: ops take no more than their step.
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> rows;
  for (const json& each : events(profile, "X")) {
    const int64_t begin = nanoseconds(each["ts"]), end = begin + nanoseconds(each["dur"]);
    EXPECT_GE(begin, 0);
    EXPECT_GE(end, begin);
    rows[each["tid"]].emplace_back(begin, -end);  // the outer one first
  }
  ASSERT_EQ(rows.size(), 2u);
  for (auto& [row, spans] : rows) {
    std::ranges::sort(spans);
    std::vector<int64_t> open;
    for (const auto& [begin, negative] : spans) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      EXPECT_TRUE(open.empty() || -negative <= open.back()) << "row " << row << " at " << begin;
      open.push_back(-negative);
    }
  }
}

TEST_F(Profile, CopiesAreMadeBetweenTheirStartAndTheirWait) {
  Training training(decoder(), options_with_copies());
  training.start();
  training.profile({.file = file_, .steps = 1});
  losses_of(training, 2);
  const json profile = json_of(file_);
  const Trace& trace = training.plan().trace;
  std::map<BufferId, std::pair<int64_t, bool>> started;  // by target: when, and whether it was made
  std::vector<json> copies = events(profile, "X", "copy"), ops = ops_of(profile);
  size_t next = 0;
  ASSERT_GT(copies.size(), 0u);
  for (const json& op : ops) {
    const Op& of = trace.ops[op["args"]["op"].get<int>()];
    if (of.copy == CopyStage::none) continue;
    if (of.copy == CopyStage::start) {
      ASSERT_LT(next, copies.size());
      const json& copy = copies[next++];
      EXPECT_EQ(copy["args"]["op"], op["args"]["op"]);
      EXPECT_EQ(copy["tid"], 2);
      EXPECT_EQ(copy["args"]["bytes"], trace.buffers[of.arguments[1].views[0].buffer].bytes);
      EXPECT_GE(nanoseconds(copy["ts"]), nanoseconds(op["ts"]));
      started[of.arguments[0].views[0].buffer] = {nanoseconds(copy["ts"]) + nanoseconds(copy["dur"]), true};
    } else {
      const auto found = started.find(of.arguments[0].views[0].buffer);
      ASSERT_NE(found, started.end());
      EXPECT_LE(found->second.first, nanoseconds(op["ts"]) + nanoseconds(op["dur"]));
    }
  }
  EXPECT_EQ(next, copies.size());
}

TEST_F(Profile, TheCountersAreThePlansLiveBytes) {
  Training training(decoder(), options_with_copies());
  training.start();
  training.profile({.file = file_, .steps = 1});
  losses_of(training, 2);
  const json profile = json_of(file_);
  const Plan& plan = training.plan();
  const std::vector<int64_t> transient = transient_bytes_by_op(plan.trace, lifetimes_of(plan.trace));
  std::map<int64_t, int64_t> values;  // by time
  int64_t host = 0;
  for (const json& each : events(profile, "C")) {
    const int64_t bytes = each["args"]["live bytes"];
    if (each["name"] == "arena") values[nanoseconds(each["ts"])] = bytes;
    if (each["name"] == "host arena") host = std::max(host, bytes);
    EXPECT_GE(bytes, 0);
  }
  for (const json& op : ops_of(profile)) {
    const auto after = values.upper_bound(nanoseconds(op["ts"]));
    ASSERT_NE(after, values.begin());
    EXPECT_EQ(std::prev(after)->second, plan.persistent_bytes + transient[op["args"]["op"].get<size_t>()]);
  }
  EXPECT_GT(host, 0);
  EXPECT_LE(host, plan.host_bytes);
}

TEST_F(Profile, ChangesNoLoss) {
  Training plain(decoder(), options_with_copies()), profiled(decoder(), options_with_copies());
  plain.start();
  profiled.start();
  profiled.profile({.file = file_, .first_step = 1, .steps = 4});
  EXPECT_EQ(losses_of(plain, 4), losses_of(profiled, 4));
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(Profile, AStepThatFailsIsNotInIt) {
  Training training(decoder(), options_with_copies());
  training.start();
  training.profile({.file = file_, .first_step = 1, .steps = 5});
  EXPECT_EQ(training.write_profile(), 0);
  EXPECT_FALSE(std::filesystem::exists(file_));
  auto bad = token_batch(2, 16, 128);
  bad["tokens"][0][0] = 4000;
  EXPECT_THROW(training.step({bad}, 1e-3), UserError);
  losses_of(training, 1);
  EXPECT_EQ(training.write_profile(), 1);
  const std::vector<json> steps = events(json_of(file_), "X", "step");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["name"], "step 1");
}

TEST_F(Profile, WhatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  Training training(decoder(), {.threads = 1});
  EXPECT_THROW(training.profile({.file = folder_ / "missing" / "profile.json"}), UserError);
  Job job = tiny_job(folder_);
  Watcher watcher;
  EXPECT_THROW(train_job(job, watcher, {.file = folder_ / "missing" / "profile.json"}), UserError);
  job.max_steps = 1;
  try {
    train_job(job, watcher, {.file = file_});
    ADD_FAILURE() << "a profile of no step was accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("max_steps is 1"));
  }
  EXPECT_EQ(watcher.plans, 0);
}

TEST_F(Profile, AJobThatEndsEarlyHasTheStepsThatThereWere) {
  Job job = tiny_job(folder_);
  job.max_steps = 3;
  Watcher watcher;
  const TrainReport report = train_job(job, watcher, {.file = file_});
  EXPECT_EQ(report.steps_profiled, 2);
  const json profile = json_of(file_);
  EXPECT_EQ(events(profile, "X", "step").size(), 2u);
  EXPECT_EQ(profile["otherData"]["threads"], 1);
  EXPECT_EQ(train(job).steps_profiled, 0);
}

}  // namespace
}  // namespace plimsoll
