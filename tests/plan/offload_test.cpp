// Moving saved values and optimizer state to host memory and back.
#include "plan/passes/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/copy_schedule.h"
#include "plan/random_trace.h"
#include "plan/validator.h"
#include "plimsoll/liveness.h"
#include "plimsoll/plan.h"

namespace plimsoll {
namespace {

using testing::random_step;
using testing::results_of;
using testing::TraceText;

// An op takes as many picoseconds as it moves bytes, and a little; the link does so many bytes a picosecond.
CostModel test_cost(double link) {
  CostModel cost;
  cost.overhead_seconds = 10e-12;
  cost.host_link = link * 1e12;
  for (auto& kind : cost.rates) kind.fill({0, 1e12});
  return cost;
}

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const Op& op : trace.ops) {
    std::string name = op.name;
    if (op.copy != CopyStage::none)
      name = name.substr(name.find("::") + 2) + " " + trace.buffers[op.arguments[1].views[0].buffer].label;
    names.push_back(name);
  }
  return names;
}

const char* kLongWait = R"(
buffer x 64 persistent
buffer w 64 state
buffer a 4096
buffer g 64 output
micro
f layers.0 a = x w
f layers.0 b = a
f layers.1 c = b
f layers.2 d = c
b layers.2 e = d
b layers.1 h = e
b layers.0 g = h a
update
u - w <- g
)";

TEST(Offload, ASavedValueIsAwayUntilItIsWanted) {
  const TraceText text(kLongWait);
  OffloadChoice choice{std::vector<char>(text.trace.buffers.size(), 0), {}};
  choice.saved[text["a"]] = 1;
  const Trace moved = offload(text.trace, choice, test_cost(1000), 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "copy_to_host a", "make_b", "wait_for_copy a", "make_c", "make_d",
                                     "make_e", "copy_to_device a", "make_h", "wait_for_copy a", "make_g", "make_w"));
  EXPECT_EQ(results_of(moved), results_of(text.trace));
  EXPECT_EQ(lifetimes_of(moved)[text["a"]].death, 4);  // when the copy is done
  // Nothing is read from where it no longer is.
  EXPECT_NE(moved.ops[10].arguments[1].views[0].buffer, text["a"]);
  EXPECT_FALSE(moved.buffers[moved.ops[10].arguments[1].views[0].buffer].host);
}

TEST(Offload, StateComesForTheUpdateAndGoesAfterIt) {
  const TraceText text(R"(
buffer x 64 persistent
buffer w 64 state
buffer m 4096 state
buffer g 64
micro
f layers.0 a = x w
b layers.0 g = a
update
u - n = g
u - w,m <- g n
u - k = g
u - w <- k
)");
  OffloadChoice choice{{}, std::vector<char>(text.trace.buffers.size(), 0)};
  choice.state[text["m"]] = 1;
  const Trace moved = offload(text.trace, choice, test_cost(1000), 1 << 20);
  EXPECT_THAT(names_of(moved),
              ::testing::ElementsAre("make_a", "make_g", "copy_to_device m", "make_n", "wait_for_copy m", "make_w,m",
                                     "copy_to_host m", "make_k", "wait_for_copy m", "make_w"));
  EXPECT_TRUE(moved.buffers[text["m"]].host);
  EXPECT_EQ(results_of(moved), results_of(text.trace));
}

TEST(CopySchedule, WaitsOnlyAsFarAsBytesAreShort) {
  const TraceText text(kLongWait);
  const Segment& micro = *text.trace.segment("micro");
  const CostModel cost = test_cost(8);  // a's 4096 bytes take 512 ps; make_b 4170, make_c and make_d 138
  const std::vector<int64_t> live(text.trace.ops.size(), 1000);
  for (const auto& [limit, wait, start] : {std::tuple(100'000, 2, 2), std::tuple(2000, 2, 6)}) {
    CopySchedule schedule(cost, text.trace, micro, live, limit);
    std::vector<CopyOut> outs{{4096, 1, 1, 6}};
    schedule.place(outs);
    EXPECT_EQ(outs[0].start, 1);
    EXPECT_EQ(outs[0].wait, wait);
    std::vector<CopyIn> ins{{4096, outs[0].wait, 6}};
    schedule.place(ins);
    EXPECT_EQ(ins[0].start, start);
    EXPECT_EQ(schedule.peak(), limit > 5000 ? 5096 : 1000);
  }
  // The first op after the last use comes at once: the copy is not done by itself, and there are bytes to wait in.
  CopySchedule schedule(cost, text.trace, micro, live, 100'000);
  std::vector<CopyOut> outs{{4096, 2, 1, 6}};
  schedule.place(outs);
  EXPECT_EQ(outs[0].wait, 6);
}

TEST(CopySchedule, OneCopyAtATimeInEachDirection) {
  const TraceText text(kLongWait);
  const Segment& micro = *text.trace.segment("micro");
  const CostModel cost = test_cost(1);
  const std::vector<int64_t> live(text.trace.ops.size(), 0);
  CopySchedule schedule(cost, text.trace, micro, live, 1 << 20);
  std::vector<CopyOut> outs{{4096, 1, 0, 6}, {4096, 1, 0, 6}};
  schedule.place(outs);
  EXPECT_EQ(outs[0].wait, 2);  // beside make_b, which takes as long
  EXPECT_EQ(outs[1].wait, 6);  // after the first
}

Trace with_state(TraceText text) {
  Trace& trace = text.trace;
  for (Op& op : trace.ops) {
    if (op.phase != Phase::update) continue;
    const auto id = static_cast<BufferId>(trace.buffers.size());
    const std::string label = "state of " + trace.buffers[op.arguments[0].views[0].buffer].label;
    trace.buffers.push_back({512, Role::optimizer_state, true, false, label});
    const View view{id, DType::uint8, 0, {512}, {1}};
    op.arguments.push_back({Argument::Kind::tensor, true, {view}});
    trace.state.push_back({label, view});
    trace.constants.push_back({id, std::vector<std::byte>(512)});
  }
  return trace;
}

// Every plan is sound (make_plan asks the validator), within both budgets, computes the same; host memory never makes
// it slower, and makes smaller budgets possible.
TEST(Offload, RandomStepsUnderTighterAndTighterBudgets) {
  std::mt19937 random(11);
  int moved_values = 0, moved_state = 0, both = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string step = random_step(random, {.blocks = 1 + static_cast<int>(random() % 6),
                                                  .ops_a_block = 2 + static_cast<int>(random() % 6),
                                                  .accumulate = random() % 2 == 0,
                                                  .hazards = random() % 3 != 0});
    SCOPED_TRACE(step);
    const Trace trace = with_state(TraceText(step));
    PlanOptions options;
    options.cost = test_cost(std::pow(4.0, static_cast<int>(random() % 5) - 2));
    options.cost.copies_overlap = random() % 4 != 0;
    options.gradient_checkpointing = random() % 5 == 0   ? Choice::on
                                     : random() % 5 == 0 ? Choice::off
                                                         : Choice::automatic;
    options.micro_batches = 1 + random() % 4;
    const auto plan_with = [&](std::optional<int64_t> budget, int64_t host) {
      PlanOptions with = options;
      with.memory_budget = budget;
      with.host_memory_budget = host;
      return make_plan(trace, with);
    };
    const auto expected = results_of(trace);
    const int64_t host = random() % 3 == 0 ? 4096 : 1 << 20;
    const int64_t without = plan_with(1, 0).minimum_budget_bytes;
    const Plan least = plan_with(1, host);
    EXPECT_FALSE(least.fits);
    EXPECT_LE(least.minimum_budget_bytes, without);
    const Plan whole = plan_with({}, host);
    EXPECT_EQ(whole.host_bytes, 0);
    for (int i = 0; i < 5; ++i) {
      const int64_t budget = whole.peak_bytes - (whole.peak_bytes - least.minimum_budget_bytes) * i / 4;
      const Plan plan = plan_with(budget, host);
      ASSERT_TRUE(plan.fits) << budget;
      EXPECT_LE(plan.peak_bytes, budget);
      EXPECT_LE(plan.host_bytes, host);
      EXPECT_EQ(results_of(plan.trace), expected);
      EXPECT_LE(plan.time.recompute_bound, plan.time.recompute + plan.time.offload + 1e-15);
      if (budget >= without) {
        const Plan apart = plan_with(budget, 0);
        EXPECT_LE(plan.time.step(options.micro_batches), apart.time.step(options.micro_batches) + 1e-15);
      }
      moved_values += plan.moved_bytes > 0;
      moved_state += plan.moved_state_bytes > 0;
      both += plan.moved_bytes > 0 && plan.checkpointed;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moved_values, 100);
  EXPECT_GT(moved_state, 100);
  EXPECT_GT(both, 20);
}

}  // namespace
}  // namespace plimsoll
