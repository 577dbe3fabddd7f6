#include "plimsoll/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/liveness.h"
#include "plan/passes/dead_ops.h"
#include "plan/passes/recompute_blocks.h"
#include "plan/pipeline.h"
#include "plan/trace_text.h"
#include "plan/validator.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::TraceText;

// Two blocks, each with a wide intermediate that backward needs, and an update.
constexpr const char* kTwoBlocks = R"(
buffer x 64 persistent
buffer w0 64 persistent
buffer w1 64 persistent
buffer h0 1024
buffer h1 1024
micro
f layers.0 h0 = x w0
f layers.0 y0 = h0
f layers.1 h1 = y0 w1
f layers.1 y1 = h1
b layers.1 d1 = y1 h1
b layers.1 g1 = d1 y0
b layers.0 d0 = d1 h0
b layers.0 g0 = d0 x
update
u - w1 <- g1
u - w0 <- g0
)";

TEST(Liveness, FromFirstTouchToLast) {
  const TraceText text(kTwoBlocks);
  const auto lifetimes = lifetimes_of(text.trace);
  EXPECT_EQ(lifetimes[text["h0"]].birth, 0);
  EXPECT_EQ(lifetimes[text["h0"]].death, 7);
  EXPECT_EQ(lifetimes[text["g1"]].birth, 5);
  EXPECT_EQ(lifetimes[text["g1"]].death, 9);
  EXPECT_EQ(lifetimes[text["w0"]].birth, 0);
  EXPECT_EQ(lifetimes[text["w0"]].death, 10);
}

TEST(Plan, BreakdownAddsUpAndThePeakIsTheGreatestSum) {
  const TraceText text(kTwoBlocks);
  const Plan plan = make_plan(text.trace);
  // At d1: x, w0, w1; h0, y0, h1, y1, d1.
  EXPECT_EQ(plan.live_bytes, 3 * 64 + 2 * 1024 + 3 * 64);
  EXPECT_EQ(plan.breakdown.total(), plan.peak_bytes);
  EXPECT_EQ(plan.arena_bytes, plan.live_bytes);
  EXPECT_EQ(find_fault(plan), "");
}

TEST(Plan, ContextIsPartOfThePeak) {
  const TraceText text(kTwoBlocks);
  const Plan plan = make_plan(text.trace, {.context_bytes = 1000});
  EXPECT_EQ(plan.peak_bytes, plan.arena_bytes + 1000);
  EXPECT_EQ(plan.breakdown.context, 1000);
}

TEST(Plan, WorkspaceIsPlacedAndCounted) {
  const TraceText text(kTwoBlocks);
  const Plan plan = make_plan(
      text.trace, {.gradient_checkpointing = Choice::off, .workspace = [](const Op& op) -> std::optional<int64_t> {
                     return op.name == "make_d1" ? std::optional<int64_t>(1000) : std::nullopt;
                   }});
  EXPECT_EQ(plan.breakdown.workspace, 1024);  // rounded up to the arena's alignment
  EXPECT_GE(plan.workspace_offsets[4], plan.persistent_bytes);
  EXPECT_EQ(plan.workspace_offsets[3], -1);
}

TEST(Plan, DoesNotFitIsAnAnswer) {
  const TraceText text(kTwoBlocks);
  const Plan plan = make_plan(text.trace, {.memory_budget = 100});
  EXPECT_FALSE(plan.fits);
  EXPECT_GT(plan.minimum_budget_bytes, 100);
  EXPECT_TRUE(make_plan(text.trace, {.memory_budget = plan.minimum_budget_bytes}).fits);
  EXPECT_FALSE(make_plan(text.trace, {.memory_budget = plan.minimum_budget_bytes - 1}).fits);
}

TEST(Plan, LargestAtPeakIsNamed) {
  const TraceText text(kTwoBlocks);
  const auto residents = largest_at_peak(make_plan(text.trace, {.gradient_checkpointing = Choice::off}), 2);
  ASSERT_EQ(residents.size(), 2u);
  EXPECT_EQ(residents[0].bytes, 1024);
  EXPECT_THAT(residents[0].label, ::testing::AnyOf("h0", "h1"));
}

TEST(RecomputeBlocks, DropsWhatABlockSavedAndRebuildsIt) {
  const TraceText text(kTwoBlocks);
  EXPECT_EQ(count_blocks(text.trace), 2);
  const Trace scheduled = recompute_blocks(text.trace, 2);
  EXPECT_EQ(scheduled.ops.size(),
            text.trace.ops.size() + 3);  // h1 and y1 again; then h0, but not y0: block 1 has read it
  int recomputed = 0;
  for (const Op& op : scheduled.ops) recomputed += op.recomputed;
  EXPECT_EQ(recomputed, 3);
  const auto lifetimes = lifetimes_of(scheduled);
  EXPECT_EQ(lifetimes[text["h0"]].death, 2);  // read by y0, then gone
  const Plan with = make_plan(text.trace, {.gradient_checkpointing = Choice::on});
  const Plan without = make_plan(text.trace, {.gradient_checkpointing = Choice::off});
  EXPECT_LT(with.peak_bytes, without.peak_bytes);
  EXPECT_EQ(find_fault(with), "");
  EXPECT_EQ(scheduled.segments[1].end - scheduled.segments[1].begin, 2);
}

TEST(RecomputeBlocks, RandomOpsKeepTheirNumbers) {
  const TraceText text(R"(
buffer x 64 persistent
micro
f layers.0 random m = x
f layers.0 y = m x
f layers.1 z = y
b layers.1 dz = z
b layers.0 dy = dz m
)");
  const Trace scheduled = recompute_blocks(text.trace, 2);
  std::vector<int64_t> ids;
  for (const Op& op : scheduled.ops)
    if (op.random_id >= 0) ids.push_back(op.random_id);
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 0}));
}

TEST(RecomputeBlocks, WhatUpdatesSomethingOutsideRunsOnce) {
  const TraceText text(R"(
buffer x 64 persistent
buffer statistics 64 persistent
micro
f layers.0 m = x
f layers.0 statistics <- m
f layers.0 y = m statistics
f layers.1 z = y
b layers.1 dz = z
b layers.0 dm = dz m y
)");
  const Trace scheduled = recompute_blocks(text.trace, 2);
  int updates = 0;
  for (const Op& op : scheduled.ops) updates += op.name == "make_statistics";
  EXPECT_EQ(updates, 1);
  EXPECT_EQ(find_fault(make_plan(text.trace, {.gradient_checkpointing = Choice::on})), "");
}

TEST(RecomputeBlocks, AnInputThatChangedMeanwhileIsNotReadAgain) {
  const TraceText text(R"(
buffer x 64 persistent
micro
f - s = x
f layers.0 m = s
f layers.0 y = m
f - s <- y
f layers.1 z = s
b layers.1 dz = z
b layers.0 dm = dz m
)");
  const Trace scheduled = recompute_blocks(text.trace, 2);
  for (const Op& op : scheduled.ops) EXPECT_FALSE(op.recomputed && op.name == "make_m");
}

TEST(DeadOps, OpsThatNobodyReadsGo) {
  const TraceText text(R"(
buffer w 64 persistent
micro
f - a = w
f - unused = a
f - unused2 = unused
b - g = a
update
u - w <- g
)");
  const Trace trace = remove_dead_ops(text.trace);
  ASSERT_EQ(trace.ops.size(), 3u);
  EXPECT_EQ(trace.segments[0].end, 2);
  EXPECT_EQ(trace.segments[1].begin, 2);
  EXPECT_EQ(trace.segments[1].end, 3);
}

TEST(DeadOps, AccumulationIsNotDead) {
  const TraceText text(R"(
buffer w 64 persistent
micro
b - g = w
accumulate
b - d = w
b - g <- d
update
u - w <- g
)");
  EXPECT_EQ(remove_dead_ops(text.trace).ops.size(), 4u);
}

// The validator must see each kind of fault in a plan that was sound.
class Faults : public ::testing::Test {
 protected:
  Faults() : text(kTwoBlocks), plan(make_plan(text.trace, {.gradient_checkpointing = Choice::off})) {}
  TraceText text;
  Plan plan;
};

TEST_F(Faults, TwoLiveBuffersInOnePlace) {
  plan.offsets[text["h1"]] = plan.offsets[text["h0"]];
  EXPECT_THAT(find_fault(plan), HasSubstr("'h0'"));
}
TEST_F(Faults, OutsideTheArena) {
  plan.offsets[text["h1"]] = plan.arena_bytes - 64;
  EXPECT_THAT(find_fault(plan), HasSubstr("outside the arena"));
}
TEST_F(Faults, ReadBeforeWritten) {
  std::swap(plan.trace.ops[0], plan.trace.ops[1]);
  EXPECT_THAT(find_fault(plan), HasSubstr("never written"));
}
TEST_F(Faults, WorkspaceOverAnOperand) {
  plan.trace.ops[4].workspace_bytes = 64;
  plan.workspace_offsets[4] = plan.offsets[text["h1"]];
  EXPECT_THAT(find_fault(plan), HasSubstr("overlaps"));
}
TEST_F(Faults, OverTheBudget) {
  plan.budget_bytes = plan.peak_bytes - 1;
  EXPECT_THAT(find_fault(plan), HasSubstr("over the budget"));
}
TEST_F(Faults, BreakdownThatDoesNotAddUp) {
  plan.breakdown.activations += 1;
  EXPECT_THAT(find_fault(plan), HasSubstr("add up"));
}
TEST_F(Faults, AGradientThatDoesNotReachTheUpdate) {
  plan.trace.buffers[text["d0"]].bytes = 64;
  plan.offsets[text["d0"]] = plan.offsets[text["g1"]];
  EXPECT_NE(find_fault(plan), "");
}

// Random traces of blocks: every plan sound, recomputed or not, and never more bytes with recomputation of everything
// than the sum of all buffers.
TEST(Plan, RandomTracesGiveSoundPlans) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::ostringstream text;
    text << "buffer x 640 persistent\n";
    const int blocks = 1 + random() % 4;
    for (int b = 0; b < blocks; ++b) text << "buffer w" << b << " " << 64 * (1 + random() % 9) << " persistent\n";
    for (int i = 0; i < 60; ++i) text << "buffer v" << i << " " << random() % 2000 << "\n";
    text << "micro\n";
    std::vector<std::string> made{"x"};
    std::vector<std::pair<int, std::string>> saved;
    int next = 0;
    for (int b = 0; b < blocks; ++b) {
      const std::string input = made.back();
      std::vector<std::string> local{input};
      for (int i = 0, n = 1 + random() % 6; i < n; ++i) {
        const std::string name = "v" + std::to_string(next++);
        text << "f layers." << b << (random() % 5 == 0 ? " random " : " ") << name << " = "
             << local[random() % local.size()] << " w" << b << "\n";
        if (random() % 4 == 0)
          text << "f layers." << b << " " << name << " <- " << local[random() % local.size()] << "\n";
        local.push_back(name);
        if (random() % 2) saved.emplace_back(b, name);
      }
      made.push_back(local.back());
    }
    std::string gradient = made.back();
    for (int b = blocks; b-- > 0;) {
      for (const auto& [block, name] : saved) {
        if (block != b) continue;
        const std::string out = "v" + std::to_string(next++);
        text << "b layers." << b << " " << out << " = " << gradient << " " << name << "\n";
        gradient = out;
      }
      text << "b layers." << b << " g" << b << " = " << gradient << " w" << b << "\n";
    }
    text << "update\n";
    for (int b = 0; b < blocks; ++b) text << "u - w" << b << " <- g" << b << "\n";
    const TraceText trace(text.str());
    for (Choice choice : {Choice::off, Choice::on}) {
      const Plan plan =
          make_plan(trace.trace, {.gradient_checkpointing = choice});  // throws if the validator finds a fault
      EXPECT_EQ(plan.breakdown.total(), plan.peak_bytes) << text.str();
      EXPECT_GE(plan.arena_bytes, plan.live_bytes);
    }
    const Plan least = make_plan(trace.trace, {.memory_budget = 1});
    EXPECT_TRUE(make_plan(trace.trace, {.memory_budget = least.minimum_budget_bytes}).fits) << text.str();
  }
}

}  // namespace
}  // namespace plimsoll
