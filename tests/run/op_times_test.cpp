#include "run/op_times.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "base/measurement.h"
#include "cost/cost.h"
#include "device/allocation_frame.h"
#include "device/backend.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "run/operand_caches.h"
#include "run/training_runs.h"
#include "test_files.h"

namespace plimsoll {
namespace {

Plan small_plan() {
  return make_plan(small_trace());
}

// A machine whose every op takes a millisecond, and on which `spike` sets the time of a try. Its arguments are the
// number of tries of any op before, and the time.
struct FakeTimedMachine : MeasuringMachine {
  explicit FakeTimedMachine(std::function<double(int, double)> spikes = {}) : spike(std::move(spikes)) {}
  double now() override { return clock; }
  void wait(double seconds) override { clock += seconds; }

  OpTimer timer() {
    return [this](const Trace&, const Op&, std::span<const int64_t>) {
      const double seconds = 1e-3 * (spike ? spike(tries, clock) : 1);
      ++tries;
      clock += seconds;
      return seconds;
    };
  }

  std::function<double(int, double)> spike;
  double clock = 0;
  int tries = 0;
  MeasuringMachineScope scope{*this};
};

TEST(OpTimes, EachDistinctOpHasATimeOnce) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  FakeTimedMachine machine;
  OpTimes times(1, machine.timer());
  const int count = times.measure(plan, generic_cost_model(), 10, 1 << 30);
  EXPECT_GT(count, 10);
  EXPECT_LT(static_cast<size_t>(count), trace.ops.size());  // three layers alike
  for (const Op& op : trace.ops) {
    if (op.phase == Phase::initialize) continue;
    ASSERT_TRUE(times.find(op)) << op.name;
    EXPECT_GT(*times.find(op), 0);
  }
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 10, 1 << 30), 0);
  // A newer limit makes them be timed again.
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 10, 1 << 30, unix_seconds_now() + 1000), count);
}

TEST(OpTimes, TheMachinesOwnAreOfItsKernels) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  OpTimes times(1);
  EXPECT_GT(times.measure(plan, generic_cost_model(), 10, 1 << 30), 10);
  for (const Op& op : trace.ops) {
    if (op.phase == Phase::initialize) continue;
    ASSERT_TRUE(times.find(op)) << op.name;
    EXPECT_GT(*times.find(op), 0);
    EXPECT_LT(*times.find(op), 10);
  }
}

// Ten times as slow in a first stretch of time, or at every third try: what is kept is the op's own time.
TEST(OpTimes, ASpikeDoesNotStick) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  for (const auto& spike :
       {std::function([](int, double clock) { return clock < 0.3 ? 10.0 + clock * 9 : 1.0; }),
        std::function([](int tries, double) { return tries * 2654435761u % 3000 < 1000 ? 9.0 + tries * 0.31 : 1.0; }),
        std::function([](int tries, double) { return tries < 40 ? 3.0 + tries : 1.0; })}) {
    FakeTimedMachine machine{spike};
    OpTimes times(1, machine.timer());
    const int count = times.measure(plan, generic_cost_model(), 100, 1 << 30);
    EXPECT_GT(machine.tries, count);
    for (const Op& op : trace.ops)
      if (op.phase != Phase::initialize) {
        EXPECT_DOUBLE_EQ(*times.find(op), 1e-3) << op.name;
      }
  }
}

// If tries never agree, the next call tries again.
TEST(OpTimes, WhatDidNotAgreeIsTriedAgain) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  FakeTimedMachine machine;
  double factor = 1;
  machine.spike = [&](int, double) { return factor *= 0.8; };  // each shorter than any before
  OpTimes times(1, machine.timer());
  const int count = times.measure(plan, generic_cost_model(), 100, 1 << 30);
  EXPECT_GE(machine.tries, 12 * count);
  machine.spike = nullptr;
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 100, 1 << 30), count);
  EXPECT_DOUBLE_EQ(*times.find(trace.ops.back()), 1e-3);
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 100, 1 << 30), 0);
}

// Time runs out after one try of each, twice: the shorter time is kept, from either call.
TEST(OpTimes, ALongerTryDoesNotReplaceAShorterOne) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  for (const bool longer_last : {false, true}) {
    FakeTimedMachine machine;
    double factor = longer_last ? 1 : 7;
    machine.spike = [&](int, double) { return factor; };
    OpTimes times(1, machine.timer());
    const Op* op = nullptr;
    const auto one_round = [&] { times.measure(plan, generic_cost_model(), 1e-9 + 0.005 * factor, 1 << 30); };
    one_round();
    for (const Op& each : trace.ops)
      if (each.phase != Phase::initialize && times.find(each)) op = op ? op : &each;
    ASSERT_TRUE(op);
    factor = 8 - factor;
    one_round();
    EXPECT_DOUBLE_EQ(*times.find(*op), 1e-3);
  }
}

TEST(OpTimes, ContradictedOnesAreMadeAgain) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  FakeTimedMachine machine{[](int, double) { return 10; }};
  OpTimes times(1, machine.timer());
  const int count = times.measure(plan, generic_cost_model(), 100, 1 << 30);
  EXPECT_EQ(times.invalidated(trace), 0);
  EXPECT_EQ(times.invalidate(trace), count);
  EXPECT_EQ(times.invalidated(trace), count);
  EXPECT_FALSE(times.find(trace.ops.back()));
  machine.spike = nullptr;
  EXPECT_EQ(times.measure(plan, generic_cost_model(), 100, 1 << 30), count);
  EXPECT_EQ(times.invalidated(trace), 0);
  EXPECT_DOUBLE_EQ(*times.find(trace.ops.back()), 1e-3);
}

TEST(OpTimes, AnOpIsTimedAtTheReuseDistancesOfItsMedianOccurrence) {
  const Plan plan = small_plan();
  const std::vector<std::vector<int64_t>> all = reuse_distances(plan);
  std::map<std::string, std::vector<std::vector<int64_t>>> occurrences;
  for (size_t i = 0; i < all.size(); ++i)
    if (plan.trace.ops[i].phase != Phase::initialize && plan.trace.ops[i].phase != Phase::evaluate)
      occurrences[timing_key(plan.trace.ops[i])].push_back(all[i]);
  int different = 0;
  FakeTimedMachine machine;
  const OpTimer try_op = machine.timer();
  const OpTimer timer = [&](const Trace& trace, const Op& op, std::span<const int64_t> distances) {
    std::vector<std::vector<int64_t>>& each = occurrences[timing_key(op)];
    if (each.empty()) return try_op(trace, op, distances);  // occurs in an evaluation only
    std::ranges::stable_sort(each, {}, [](const std::vector<int64_t>& of_op) {
      int64_t sum = 0;
      for (const int64_t distance : of_op) sum += std::min(distance, int64_t{1} << 50);
      return sum;
    });
    const std::vector<int64_t>& median = each[each.size() / 2];
    EXPECT_TRUE(std::ranges::equal(distances, median)) << op.name;
    different += each.front() != median && each.back() != median;
    return try_op(trace, op, distances);
  };
  OpTimes(1, timer).measure(plan, generic_cost_model(), 10, 1 << 30);
  EXPECT_GT(different, 0);  // occurrences differ, so that the test can fail
}

// Times of another way of timing are not comparable.
TEST(OpTimes, OfAnEarlierMethodAreNotRead) {
  const TempFolder folder;
  FakeTimedMachine machine;
  OpTimes timed(1, machine.timer());
  timed.measure(small_plan(), generic_cost_model(), 10, 1 << 30);
  timed.save(folder / "times.json");
  OpTimes same(1);
  same.load(folder / "times.json");
  ASSERT_EQ(same.size(), timed.size());
  std::string text = get_file(folder / "times.json");
  const size_t at = text.find("\"method\"");
  ASSERT_NE(at, std::string::npos);
  text.erase(at, text.find(',', at) + 1 - at);
  put_file(folder / "times.json", text);
  OpTimes read(1);
  read.load(folder / "times.json");
  EXPECT_EQ(read.size(), 0u);
}

TEST(OpTimes, WhatIsTooLargeIsLeftOut) {
  OpTimes times(1);
  EXPECT_EQ(times.measure(small_plan(), generic_cost_model(), 10, 0), 0);
  EXPECT_EQ(times.measure(small_plan(), generic_cost_model(), 1e-6, 1 << 30), 0);
}

TEST(OpTimes, AFileIsReadBackAndADamagedOneIsNothingKnown) {
  const TempFolder folder;
  const std::filesystem::path file = folder / "made" / "times.json";
  OpTimes times(1), read(1), others(2);
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  times.measure(plan, generic_cost_model(), 10, 1 << 30);
  times.invalidate(trace);
  times.save(file);
  read.load(file);
  EXPECT_EQ(read.size(), times.size());
  EXPECT_EQ(read.invalidated(trace), times.invalidated(trace));
  others.load(file);  // measured with another number of threads
  EXPECT_EQ(others.size(), 0u);
  for (const char* text :
       {"", "[]", "{\"machine\": 3}", "{\"times\": {}", "{\"machine\":\"x\",\"threads\":1,\"times\":[1]}"}) {
    std::ofstream(file) << text;
    OpTimes damaged(1);
    damaged.load(file);
    EXPECT_EQ(damaged.size(), 0u) << text;
  }
}

TEST(OpTimes, PredictionsGoByThem) {
  const Plan plan = small_plan();
  const Trace& trace = plan.trace;
  CostModel model = generic_cost_model();
  model.measured_seconds = [](const Op& op) { return op.phase == Phase::forward ? std::optional(0.5) : std::nullopt; };
  const Op& forward = trace.ops[trace.segment(SegmentKind::micro)->begin];
  EXPECT_EQ(seconds_of(model, forward), 0.5);
  EXPECT_LT(seconds_of(model, trace.ops.back()), 0.5);
}

// "More" decides whether a step is planned again.
TEST(MeasuredWorkspace, LearnsOnlyWhatIsMoreThanWasKnown) {
  MeasuredWorkspace workspace([](const Op&) { return std::nullopt; });
  Op op;
  op.name = "aten::mm.out";
  EXPECT_TRUE(workspace.record(op, 100));
  EXPECT_FALSE(workspace.record(op, 100));
  EXPECT_FALSE(workspace.record(op, 99));
  EXPECT_EQ(workspace.model()(op), 100);
  EXPECT_TRUE(workspace.record(op, 101));
  EXPECT_TRUE(workspace.record_other_thread_bytes(4096));
  EXPECT_FALSE(workspace.record_other_thread_bytes(4096));
  EXPECT_FALSE(workspace.record_other_thread_bytes(64));
  EXPECT_GE(workspace.other_thread_bytes(), 4096);
}

// The forms of a loss head have the same operands.
TEST(MeasuredWorkspace, OpsThatDifferInAConstantHaveTheirOwnScratch) {
  const auto head = [](int64_t chunk_tokens) {
    Op op;
    op.name = "plimsoll::linear_cross_entropy_loss.chunks";
    op.arguments.resize(6);
    op.call = std::make_shared<OpCall>(
        OpCall{c10::Dispatcher::singleton().findSchemaOrThrow("plimsoll::linear_cross_entropy_loss", "chunks"),
               {{}, {}, {}, int64_t{-100}, 0.0, chunk_tokens}});
    return op;
  };
  MeasuredWorkspace workspace([](const Op&) { return std::nullopt; });
  EXPECT_TRUE(workspace.record(head(8192), 1000));
  EXPECT_FALSE(workspace.model()(head(4096)));
  EXPECT_TRUE(workspace.record(head(4096), 100));
  EXPECT_EQ(workspace.model()(head(8192)), 1000);
  EXPECT_EQ(workspace.model()(head(4096)), 100);
  MeasuredWorkspace of_other_rank([](const Op&) { return std::nullopt; });
  EXPECT_TRUE(of_other_rank.merge(workspace.text()));
  EXPECT_EQ(of_other_rank.model()(head(4096)), 100);
}

TEST(MeasuredWorkspace, ProbingFindsWhatKernelsTake) {
  const Trace trace = small_trace();
  MeasuredWorkspace workspace([](const Op&) { return std::nullopt; });
  workspace.probe(trace, 1 << 30, cpu_backend());
  const WorkspaceModel model = workspace.model();
  int64_t most = 0;
  for (const Op& op : trace.ops) most = std::max(most, model(op).value_or(0));
  EXPECT_GT(most, 0);  // attention, for one
  MeasuredWorkspace none([](const Op&) { return std::nullopt; });
  none.probe(trace, 0, cpu_backend());
  for (const Op& op : trace.ops) EXPECT_EQ(none.model()(op).value_or(0), 0);
}

TEST(MeasuredWorkspace, CountsTheOpsThatDidNotRun) {
  const Trace trace = small_trace();
  const WorkspaceModel no_rule = [](const Op&) { return std::nullopt; };
  MeasuredWorkspace refusing(no_rule);
  const auto refused = refusing.probe(trace, 1 << 30, cpu_backend(), [&](const Op&, int64_t bytes, const auto&) {
    EXPECT_GT(bytes, 0);
    return false;
  });
  EXPECT_GT(refused.refused, 0);
  EXPECT_FALSE(refused.found_more);
  EXPECT_EQ(refusing.probe(trace, 0, cpu_backend()).refused, refused.refused);  // too large, and without a rule
  MeasuredWorkspace ruled([](const Op&) { return 64; });
  EXPECT_EQ(ruled.probe(trace, 0, cpu_backend()).refused, 0);
}

TEST(MeasuredWorkspace, AnOpThatExceedsALimitOfScratchIsRefused) {
  const Trace trace = small_trace();
  MeasuredWorkspace workspace([](const Op&) { return std::nullopt; });
  int exceeded = 0;
  const auto probed = workspace.probe(trace, 1 << 30, cpu_backend(), [&](const Op&, int64_t, const auto& run_op) {
    const ScratchLimit none(0);
    try {
      run_op();
    } catch (const UserError&) {
    }
    exceeded += none.exceeded();
    return !none.exceeded();
  });
  EXPECT_GT(exceeded, 0);  // attention, for one
  EXPECT_EQ(probed.refused, exceeded);
  EXPECT_FALSE(probed.found_more);
  for (const Op& op : trace.ops) EXPECT_EQ(workspace.model()(op).value_or(0), 0);
}

}  // namespace
}  // namespace plimsoll
