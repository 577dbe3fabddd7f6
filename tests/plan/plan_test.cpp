#include "plimsoll/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "plan/passes/rewrite.h"
#include "plan/placement/validator.h"
#include "plan/trace_text.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::kTwoBlocks;
using testing::TraceText;

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

TEST(Liveness, AnOutputLivesFromItsFirstWriteToTheEnd) {
  const TraceText text(R"(
buffer x 64 persistent
buffer w 64 state
buffer loss 256 output
buffer unread 64 output
micro
f - a = x w
f - loss = a
b - g = a
update
u - w <- g
u - w <- x
)");
  const std::vector<Lifetime> lifetimes = lifetimes_of(text.trace);
  EXPECT_EQ(lifetimes[text["loss"]].birth, 1);
  EXPECT_EQ(lifetimes[text["loss"]].death, 5);  // no op reads it; the host does
  EXPECT_EQ(lifetimes[text["a"]].death, 3);
  EXPECT_EQ(lifetimes[text["g"]].death, 4);
  EXPECT_EQ(lifetimes[text["unread"]].birth, lifetimes[text["unread"]].death);  // no op makes it
  // a in ops 0 to 2, the loss in ops 1 to 4, g in ops 2 and 3.
  EXPECT_THAT(transient_bytes_by_op(text.trace, lifetimes),
              ::testing::ElementsAre(64, 64 + 256, 64 + 256 + 64, 256 + 64, 256));
}

TEST(Liveness, ScratchIsLiveOnTheDeviceWhileItsOpRuns) {
  TraceText text(kTwoBlocks);
  const std::vector<Lifetime> lifetimes = lifetimes_of(text.trace);
  const std::vector<int64_t> without = transient_bytes_by_op(text.trace, lifetimes);
  for (size_t i = 0; i < without.size(); ++i) {
    Op& op = text.trace.ops[i];
    op.workspace_bytes = 4096;
    std::vector<int64_t> expected = without;
    expected[i] += 4096;
    EXPECT_EQ(transient_bytes_by_op(text.trace, lifetimes), expected) << i;
    op.on_host = true;  // scratch in host memory
    EXPECT_EQ(transient_bytes_by_op(text.trace, lifetimes), without) << i;
    op.on_host = false;
    op.workspace_bytes = 0;
  }
}

TEST(Liveness, PersistentBuffersAndBuffersInHostMemoryAreNoTransientBytesOfTheDevice) {
  TraceText text(kTwoBlocks);
  const std::vector<Lifetime> lifetimes = lifetimes_of(text.trace);
  std::vector<int64_t> expected = transient_bytes_by_op(text.trace, lifetimes);
  // h0, y0, h1, y1 and d1; x, w0 and w1 are persistent.
  EXPECT_EQ(expected[4], 2 * 1024 + 3 * 64);
  text.trace.buffers[text["h0"]].memory = Memory::host;
  for (int32_t op = 0; op < 7; ++op) expected[op] -= 1024;
  EXPECT_EQ(transient_bytes_by_op(text.trace, lifetimes), expected);
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

TEST(StepTime, EachSegmentAsOftenAsItRuns) {
  StepTime time;
  time.micro = 10;
  time.accumulate = 11;
  time.remainder = 5;
  time.update = 3;
  EXPECT_EQ(time.step(1), 13);
  EXPECT_EQ(time.step(3), 10 + 2 * 11 + 3);
  EXPECT_EQ(time.step(3, true), 10 + 11 + 5 + 3);
  time.last = 20;  // updates in the last micro batch
  time.finish = 1;
  EXPECT_EQ(time.step(1), 13);
  EXPECT_EQ(time.step(2), 10 + 20 + 1);
  EXPECT_EQ(time.step(4), 10 + 2 * 11 + 20 + 1);
  EXPECT_EQ(time.step(4, true), 10 + 2 * 11 + 5 + 1);
  time.norms = 7;
  EXPECT_EQ(time.step(1), 20);
}

TEST(Plan, ContextIsPartOfThePeak) {
  const TraceText text(kTwoBlocks);
  const Plan plan = make_plan(text.trace, {.budget = {.context = 1000}});
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

TEST(Plan, ScratchAloneMakesThePeak) {
  const TraceText text(kTwoBlocks);
  for (const std::string name : {"make_h0", "make_g1", "make_w0"}) {
    const Plan plan = make_plan(
        text.trace, {.gradient_checkpointing = Choice::off, .workspace = [&](const Op& op) -> std::optional<int64_t> {
                       return op.name == name ? std::optional<int64_t>(1 << 20) : std::nullopt;
                     }});
    EXPECT_EQ(plan.trace.ops[plan.peak_op].name, name);
    EXPECT_GE(plan.live_bytes, 1 << 20);
    EXPECT_EQ(plan.breakdown.workspace, 1 << 20);
  }
}

TEST(Plan, AnOutputIsNotOverwrittenBeforeTheHostReadsIt) {
  const TraceText text(R"(
buffer x 64 persistent
buffer w 64 state
buffer loss 1024 output
buffer g 1024
micro
f - loss = x w
b - g = x w
update
u - w <- g
)");
  const Plan plan = make_plan(text.trace);
  const int64_t loss = plan.offsets[text["loss"]], g = plan.offsets[text["g"]];
  EXPECT_GE(std::abs(loss - g), 1024);
  EXPECT_EQ(plan.live_bytes, 2 * 64 + 2 * 1024);
  EXPECT_EQ(find_fault(plan), "");
}

TEST(Plan, DoesNotFitIsAnAnswer) {
  const TraceText text(kTwoBlocks);
  const Planner planner(text.trace, {.budget = {.device = 100}});
  const int64_t least = planner.minimum_budget();
  EXPECT_FALSE(planner.plan().fits);
  EXPECT_GT(least, 100);
  EXPECT_TRUE(make_plan(text.trace, {.budget = {.device = least}}).fits);
  EXPECT_FALSE(make_plan(text.trace, {.budget = {.device = least - 1}}).fits);
}

TEST(Plan, LargestAtPeakIsNamed) {
  const TraceText text(kTwoBlocks);
  const auto residents = largest_at_peak(make_plan(text.trace, {.gradient_checkpointing = Choice::off}), 2);
  ASSERT_EQ(residents.size(), 2u);
  EXPECT_EQ(residents[0].bytes, 1024);
  EXPECT_THAT(residents[0].label, ::testing::AnyOf("h0", "h1"));
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

// Nothing is left to run or to choose, with any options.
TEST(DeadOps, AStepWithoutResultsIsPlanned) {
  const TraceText text("buffer x 64 persistent\nmicro\nf layers.0 y = x\nf layers.1 z = y\n");
  for (const Choice checkpointing : {Choice::automatic, Choice::on, Choice::off}) {
    PlanOptions options;
    options.gradient_checkpointing = checkpointing;
    options.budget = {.device = 64, .host = 4096};
    options.cost = generic_cost_model();
    const Plan plan = make_plan(text.trace, options);
    EXPECT_TRUE(plan.fits);
    EXPECT_EQ(plan.peak_bytes, 64);
    EXPECT_TRUE(plan.trace.ops.empty());
    options.budget.device = 63;
    EXPECT_FALSE(make_plan(text.trace, options).fits);
  }
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

// The validator must see each kind of fault in a plan that was sound: in values that one segment leaves for another,
// and in lasting values.
constexpr const char* kAccumulating = R"(
buffer x 64 persistent
buffer rate 64 persistent
buffer w 64 state
buffer momentum 64 state
micro
f layers.0 h = x w
b layers.0 g = h w
accumulate
f layers.0 h2 = x w
b layers.0 d2 = h2 w
b layers.0 g <- d2
update
u - momentum <- g
u - w <- momentum rate
)";

class LongFaults : public ::testing::Test {
 protected:
  LongFaults() : text(kAccumulating), plan(make_plan(text.trace, {.gradient_checkpointing = Choice::off})) {}
  void put(const char* what, const char* over) { plan.offsets[text[what]] = plan.offsets[text[over]]; }
  TraceText text;
  Plan plan;
};

TEST_F(LongFaults, NoneAtFirst) {
  EXPECT_EQ(find_fault(plan), "");
}
TEST_F(LongFaults, AnActivationOverAGradientThatIsAddedTo) {
  put("h2", "g");
  EXPECT_THAT(find_fault(plan), HasSubstr("'g'"));
}
TEST_F(LongFaults, AnActivationOverStateThatOnlyTheUpdateUses) {
  put("h", "momentum");
  EXPECT_THAT(find_fault(plan), HasSubstr("'momentum'"));
}
TEST_F(LongFaults, AnActivationOverAnInputThatOnlyTheUpdateReads) {
  put("h", "rate");
  EXPECT_THAT(find_fault(plan), HasSubstr("'rate'"));
}
TEST_F(LongFaults, AnOffsetThatIsNotAligned) {
  plan.offsets[text["h"]] += 1;
  plan.arena_bytes += 64;
  plan.peak_bytes += 64;
  plan.breakdown.fragmentation += 64;
  EXPECT_THAT(find_fault(plan), HasSubstr("aligned"));
}
TEST_F(LongFaults, APeakBelowTheArena) {
  plan.peak_bytes -= 64;
  plan.breakdown.activations -= 64;
  EXPECT_THAT(find_fault(plan), HasSubstr("below the size"));
}
TEST_F(LongFaults, EvaluationThatReadsWhatOnlyTrainingMakes) {
  TraceText lazy(R"(
buffer x 64 persistent
buffer w 64 state
buffer cache 64 state
micro
f - h = x w
b - g = h
update
u - w <- g
evaluate
f - cache <- h
)");
  EXPECT_THROW(make_plan(lazy.trace), InternalError);
}

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
  plan.budget.device = plan.peak_bytes - 1;
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

}  // namespace
}  // namespace plimsoll
