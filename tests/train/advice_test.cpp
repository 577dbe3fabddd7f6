// Tests the advice for a job that does not fit: each change makes a job that fits.
#include "plimsoll/plan_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "rounds.h"
#include "test_files.h"
#include "train/advice_steps.h"
#include "train/random_jobs.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class AdviceTest : public ::testing::Test {
 protected:
  /// Searches for the job of `text` under `share` of the minimum budget, on a card whose machine has no usable memory.
  AdviceSearch search(const std::string& text, double share, AdviceOptions options = {},
                      const std::vector<std::string>& overrides = {}) {
    file_ = put_file(folder_ / "job.yaml", text);
    overrides_ = overrides;
    target_ = target_of(require_device("rtx4090"));
    target_.budget.context = target_.budget.library = 0;
    target_.budget.device = 1;
    const PlannedJob least = plan_job(read_job(file_, overrides_), target_);
    least_ = least.minimum_budget_bytes;
    target_.budget.device = static_cast<int64_t>(static_cast<double>(least_) * share);
    const PlannedJob base_plan = plan_job(read_job(file_, overrides_), target_);
    EXPECT_FALSE(base_plan.plan.fits);
    return find_fitting_changes(file_, overrides_, target_, base_plan, options);
  }

  PlannedJob planned(const Advice& advice) const {
    std::vector<std::string> all = overrides_;
    all.insert(all.end(), advice.overrides.begin(), advice.overrides.end());
    const Job job = read_job(file_, all);
    PlanTarget target = target_;
    target.budget.host = job.budget.host;
    return plan_job(job, target);
  }

  static std::vector<std::string> changes(const AdviceSearch& search) {
    std::vector<std::string> texts;
    for (const Advice& each : search.found) texts.push_back(override_text(each));
    return texts;
  }

  TempFolder folder_;
  std::filesystem::path file_;
  std::vector<std::string> overrides_;
  PlanTarget target_;
  int64_t least_ = 0;
};

constexpr const char* kAdapted =
    "model: {type: decoder, vocab_size: 64, hidden_size: 128, num_layers: 2, num_heads: 4, tie_embeddings: true}\n"
    "data: {type: synthetic, samples: 8, sequence_length: 8, validation_fraction: 0}\n"
    "lora: {modules: [layers], rank: 4}\n"
    "optimizer: {name: adamw}\nbatch_size: 1\ndevice: cuda\nmemory_budget: 1GiB\n";

// Nearly all of it is frozen weights: any change that shrinks them helps, and no other.
TEST_F(AdviceTest, FrozenWeightsAreProposedInFewerBits) {
  const AdviceSearch found = search(kAdapted, 0.7, {.max_changes = 2});
  EXPECT_FALSE(found.ended_early);
  EXPECT_THAT(changes(found), Contains(HasSubstr("quantize.modules=layers")));
  for (const std::string& each : changes(found))
    EXPECT_THAT(each, Not(AllOf(HasSubstr("sequence_length"), Not(HasSubstr("quantize"))))) << each;
}

// All of it is trained: weights in 16 bits and state in fewer bits help, and quantized blocks, which cannot be trained,
// are not proposed.
TEST_F(AdviceTest, TrainedWeightsAreNotPutIntoBlocks) {
  const AdviceSearch found = search(
      "model: {type: decoder, vocab_size: 64, hidden_size: 128, num_layers: 4, num_heads: 4}\n"
      "data: {type: synthetic, samples: 8, sequence_length: 8, validation_fraction: 0}\n"
      "optimizer: {name: adamw}\nbatch_size: 1\ndevice: cuda\nmemory_budget: 1GiB\n",
      0.7);
  ASSERT_FALSE(found.found.empty());
  EXPECT_EQ(changes(found).front(), "optimizer.state_dtype=8bit");
  for (const std::string& each : changes(found)) EXPECT_THAT(each, Not(HasSubstr("quantize")));
}

// Activations fill it: fewer frames, smaller ones, a shorter text, by keys of this kind of job.
TEST_F(AdviceTest, SamplesAreProposedByTheKeysOfTheKind) {
  const std::string video =
      "model: {type: video_llm, image_size: 32, tokens_per_frame: 1, vision: {patch: 4, width: 32, depth: 4, "
      "num_heads: "
      "2}, llm: {vocab_size: 64, hidden_size: 32, num_layers: 1, num_heads: 2}}\n"
      "data: {type: synthetic, samples: 8, max_frames: 16, sequence_length: 8, validation_fraction: 0}\n"
      "precision: bf16-true\noptimizer: {name: adamw, state_dtype: 4bit}\nbatch_size: 1\ndevice: cuda\n"
      "memory_budget: 1GiB\n";
  std::set<std::string> keys;
  for (const std::string& each : changes(search(video, 0.8, {.max_changes = 5})))
    keys.insert(each.substr(0, each.find('=')));
  EXPECT_THAT(keys, Contains("data.max_frames"));
  EXPECT_THAT(keys, Contains("model.image_size"));
  EXPECT_THAT(keys, Not(Contains("data.train_ratio_of_vectors")));
}

// Fixed choices are left to the planner first, and batches stay the same: in either meaning of batch_size, by the micro
// batch next to it.
TEST_F(AdviceTest, PinnedChoicesGoFirst) {
  const std::string text =
      "model: {type: decoder, vocab_size: 64, hidden_size: 16, num_layers: 2, num_heads: 2}\n"
      "data: {type: synthetic, samples: 8, sequence_length: 64, validation_fraction: 0}\n"
      "gradient_checkpointing: false\noptimizer: {name: adamw}\ndevice: cuda\nmemory_budget: 1GiB\n";
  const AdviceSearch one = search(text + "micro_batch_size: 4\ngradient_accumulation_steps: 2\n", 0.8);
  ASSERT_FALSE(one.found.empty());
  EXPECT_EQ(changes(one).front(), "gradient_checkpointing=auto");
  const AdviceSearch all = search(text + "micro_batch_size: 8\ngradient_accumulation_steps: 2\n", 0.3);
  ASSERT_FALSE(all.found.empty());
  EXPECT_THAT(changes(all).front(), HasSubstr("batch_size=16 micro_batch_size=auto gradient_accumulation_steps=auto"));
  const AdviceSearch scheduled = search(text + "micro_batch_size: 8\ngradient_accumulation_steps: {0: 4, 2: 1}\n", 0.3);
  ASSERT_FALSE(scheduled.found.empty());
  EXPECT_THAT(changes(scheduled).front(),
              HasSubstr("batch_size=32 micro_batch_size=1 'gradient_accumulation_steps={0: 32, 2: 8}'"));
}

TEST_F(AdviceTest, ASmallerModelIsProposedToo) {
  const AdviceSearch all = search(kAdapted, 0.7, {.max_changes = 100});
  EXPECT_THAT(changes(all), Contains(HasSubstr("model.num_layers=1")));
}

// Called before every schedule: the search ends within one change, with its results so far.
TEST_F(AdviceTest, EndsWhereItIsTold) {
  const AdviceSearch whole = search(kAdapted, 0.7, {.max_changes = 2});
  ASSERT_GE(whole.found.size(), 2u);
  AdviceProgress last;
  const AdviceSearch none = search(kAdapted, 0.7, {.should_continue = [&](const AdviceProgress& at) {
                                     last = at;
                                     return at.schedules < 1;
                                   }});
  EXPECT_TRUE(none.ended_early);
  EXPECT_TRUE(none.found.empty());
  EXPECT_EQ(none.planned, 0);
  EXPECT_EQ(last.schedules, 1);
  EXPECT_FALSE(none.untried.empty());
  const AdviceSearch some = search(
      kAdapted, 0.7, {.max_changes = 2, .should_continue = [](const AdviceProgress& at) { return at.found < 1; }});
  EXPECT_TRUE(some.ended_early);
  ASSERT_EQ(some.found.size(), 1u);
  EXPECT_THAT(changes(whole), Contains(override_text(some.found.front())));
}

constexpr const char* kLarge =
    "model: {type: decoder, vocab_size: 64, hidden_size: 256, num_layers: 26, num_heads: 4}\n"
    "data: {type: synthetic, samples: 8, sequence_length: 16, validation_fraction: 0}\n"
    "optimizer: {name: adamw}\nprecision: bf16-true\nbatch_size: 1\nmax_grad_norm: 0\ndevice: cuda\n"
    "memory_budget: 1GiB\n";

// The fit of a change is known before its time: a search that ends in between reports it.
TEST_F(AdviceTest, WhatIsKnownToFitIsToldWithoutItsTime) {
  bool told = false;
  for (int64_t schedules = 1; schedules < 200 && !told; schedules += (schedules + 3) / 4) {
    const AdviceSearch cut = search(kLarge, 0.7, {.should_continue = [&](const AdviceProgress& at) {
                                      return at.planned == 0 && at.schedules < schedules;
                                    }});
    if (cut.found.empty() || cut.found.front().step_seconds > 0) continue;
    told = true;
    EXPECT_TRUE(cut.ended_early);
    EXPECT_EQ(cut.found.size(), 1u);
    EXPECT_LE(cut.found.front().peak_bytes, target_.budget.device);
    EXPECT_TRUE(planned(cut.found.front()).plan.fits);
  }
  EXPECT_TRUE(told);
}

// For a step that takes seconds to plan, the change that fits most probably and does not change learning comes first.
TEST_F(AdviceTest, OfALargeStepRoomBesideTheDeviceGoesFirst) {
  const AdviceSearch first =
      search(kLarge, 0.7, {.should_continue = [](const AdviceProgress& at) { return at.found < 1; }});
  ASSERT_EQ(first.found.size(), 1u);
  EXPECT_THAT(override_text(first.found.front()), HasSubstr("host_memory_budget="));
  EXPECT_EQ(first.found.front().meaning, "up to 8.00 GiB of host memory in addition");
  // The choices that it leaves to the planner are named, too.
  const AdviceSearch pinned = search(std::string(kLarge) + "update_in_backward: false\n", 0.7,
                                     {.should_continue = [](const AdviceProgress& at) { return at.found < 1; }});
  ASSERT_EQ(pinned.found.size(), 1u);
  EXPECT_THAT(pinned.found.front().meaning,
              AllOf(HasSubstr("up to 8.00 GiB of host memory in addition; "), HasSubstr("updates")));
}

// Changes are tried in the order of these estimates.
TEST(AdviceSteps, ScaleTheBytesOfTheirFormats) {
  const auto scaled = [](const Job& job, const PeakMemoryModel& memory, double PeakMemoryModel::*part) {
    std::map<std::string, double> scaled;
    for (const AdviceStep& step : advice_steps(job, memory, target_of(require_device("rtx4090")))) {
      PeakMemoryModel after = memory;
      step.effect(after);
      const std::string& change = step.overrides.front();
      if (change.find("dtype") != std::string::npos && after.*part != memory.*part)
        scaled[change] = after.*part / memory.*part;
    }
    return scaled;
  };
  Job job = parse_job(
      "{data.type: synthetic, batch_size: 8, gradient_accumulation_dtype: float32, optimizer.state_dtype: float32, "
      "precision: bf16-true}",
      "job.yaml", "");
  PeakMemoryModel memory;
  memory.trained_half = memory.gradients = memory.state = 1 << 20;
  EXPECT_THAT(scaled(job, memory, &PeakMemoryModel::gradients),
              UnorderedElementsAre(Pair("gradient_accumulation_dtype=bfloat16", DoubleEq(0.5)),
                                   Pair("gradient_accumulation_dtype=8bit", DoubleEq(1.008 / 4))));
  EXPECT_THAT(scaled(job, memory, &PeakMemoryModel::state),
              UnorderedElementsAre(Pair("optimizer.state_dtype=8bit", DoubleEq(1.008 / 4)),
                                   Pair("optimizer.state_dtype=4bit", DoubleEq(0.516 / 4))));
  // Formats that have these bytes already.
  job.accumulator_dtype = AccumulatorDtype::bfloat16;
  job.optimizer.state_dtype = StateDtype::bits8;
  EXPECT_THAT(scaled(job, memory, &PeakMemoryModel::gradients),
              UnorderedElementsAre(Pair("gradient_accumulation_dtype=8bit", DoubleEq(1.008 / 2))));
  EXPECT_THAT(scaled(job, memory, &PeakMemoryModel::state),
              UnorderedElementsAre(Pair("optimizer.state_dtype=4bit", DoubleEq(0.516 / 1.008))));
}

// For random jobs of every kind, an advised change fits when it is typed, in at most the advised bytes. No advice
// contains another one.
TEST_F(AdviceTest, WhatIsToldFits) {
  testing::RandomJobs jobs(7);
  int told = 0;
  for (int round = 0; round < testing::rounds(5); ++round) {
    const std::string text =
        jobs.text(fmt::format("precision: {}\nbatch_size: 4\n", jobs.pick({"32-true", "bf16-mixed"})));
    SCOPED_TRACE(text);
    const AdviceSearch found = search(text, std::vector{0.9, 0.6, 0.4}[jobs.random()() % 3], {.max_changes = 3});
    for (const Advice& each : found.found) {
      SCOPED_TRACE(override_text(each));
      ++told;
      const PlannedJob as_typed = planned(each);
      EXPECT_TRUE(as_typed.plan.fits);
      EXPECT_LE(each.peak_bytes, *target_.budget.device);
      EXPECT_LE(as_typed.step_seconds, each.step_seconds * 1.01);
      for (const Advice& other : found.found) {
        const std::set<std::string> all(each.overrides.begin(), each.overrides.end());
        EXPECT_FALSE(&other != &each && std::ranges::all_of(other.overrides, [&](const std::string& change) {
          return all.contains(change);
        })) << override_text(other);
      }
    }
  }
  EXPECT_GE(told, 5);
}

}  // namespace
}  // namespace plimsoll
