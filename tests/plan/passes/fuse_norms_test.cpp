#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/placement/validator.h"
#include "plan/trace_text.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::names;
using testing::op;
using testing::tensor;
using testing::view;

// norm(x) -> y; norm_backward(grad_y, x) -> dx, as the pairs of a device with kernels for them.
Op of_both(std::string name, std::vector<View> read, std::vector<View> written) {
  Op made;
  made.name = std::move(name);
  for (View& each : read) made.arguments.push_back(tensor(std::move(each)));
  for (View& each : written) made.arguments.push_back(tensor(std::move(each), true));
  return made;
}
std::optional<Op> pair(const Op& first, const Op& second) {
  const auto at = [](const Op& each, size_t i) { return each.arguments[i].views[0]; };
  if (first.name == "add" && second.name == "norm" && at(first, 2) == at(second, 0))
    return of_both("fused: add, norm", {at(first, 0), at(first, 1)}, {at(first, 2), at(second, 1)});
  if (first.name == "fused: norm_backward, add" && second.name == "cast" && at(first, 3) == at(second, 0)) {
    const View copy = at(second, 1);
    for (size_t i = 0; i < 4; ++i)
      if (at(first, i).buffer == copy.buffer) return std::nullopt;
    return of_both("fused: norm_backward, add, cast", {at(first, 0), at(first, 1), at(first, 2)}, {at(first, 3), copy});
  }
  if (first.name != "norm_backward" || second.name != "add") return std::nullopt;
  const View dx = at(first, 2), sum = at(second, 2);
  const View other = at(second, 0) == dx ? at(second, 1) : at(second, 0);
  if ((at(second, 0) != dx && at(second, 1) != dx) || other == dx) return std::nullopt;
  if (sum.buffer == at(first, 0).buffer || sum.buffer == at(first, 1).buffer) return std::nullopt;
  return of_both("fused: norm_backward, add", {at(first, 0), at(first, 1), other}, {sum});
}

// The ops that fuse_pointwise would fuse.
std::optional<PointwiseOp> translate_arithmetic(const Op& op) {
  if (op.name != "add" && op.name != "mul") return std::nullopt;
  return PointwiseOp{op.name == "add" ? Opcode::add : Opcode::mul,
                     {{op.arguments[0].views[0], 0}, {op.arguments[1].views[0], 0}},
                     op.arguments[2].views[0]};
}
FusionRules norm_fusion_rules(bool all = false) {
  return {all, translate_arithmetic, [](const FusedProgram&) { return nullptr; }, pair};
}

constexpr BufferId kX = 0, kR = 1, kS = 2, kY = 3, kGradY = 4, kDx = 5, kGrad = 6, kLarge = 7, kLoss = 8, kOut = 9;

// s = x + r, y = norm(s); then the norm's backward, in addition to the gradient of s that exists already.
class FuseNorms : public ::testing::Test {
 protected:
  FuseNorms() {
    trace_.modules = {""};
    trace_.buffers = {{4096, Role::input, true, false, "x"},           {4096, Role::temporary, false, false, "r"},
                      {4096, Role::temporary, false, false, "s"},      {2048, Role::temporary, false, false, "y"},
                      {2048, Role::temporary, false, false, "grad_y"}, {4096, Role::temporary, false, false, "dx"},
                      {4096, Role::temporary, false, false, "grad"},   {65536, Role::temporary, false, false, "large"},
                      {4, Role::temporary, false, true, "loss"},       {4096, Role::temporary, false, false, "out"}};
    trace_.ops = {op("make", {}, all(kR)),
                  op("add", {all(kX), all(kR)}, all(kS)),
                  op("norm", {all(kS)}, half(kY)),
                  op("backward", {half(kY), all(kS)}, all(kGrad)),
                  op("backward", {half(kY)}, half(kGradY)),
                  op("norm_backward", {half(kGradY), all(kS)}, all(kDx)),
                  op("add", {all(kGrad), all(kDx)}, all(kGrad)),
                  op("sum", {all(kGrad)}, view(kLoss, {}))};
    trace_.segments = {{SegmentKind::micro, 0, 8}};
    trace_.inputs = {{"x", all(kX)}};
  }
  static View all(BufferId buffer) { return view(buffer, {32, 32}); }
  static View half(BufferId buffer) { return view(buffer, {32, 32}, DType::bfloat16); }
  void insert(int32_t at, Op op) {
    trace_.ops.insert(trace_.ops.begin() + at, std::move(op));
    ++trace_.segments[0].end;
  }
  void only_backward() {
    trace_.ops.erase(trace_.ops.begin(), trace_.ops.begin() + 3);
    trace_.ops[0] = op("make", {}, all(kGrad));
    trace_.ops[1] = op("make", {}, half(kGradY));
    trace_.ops[2].arguments[1].views[0] = all(kX);
    trace_.segments[0].end = 5;
  }
  void only_forward() {
    trace_.ops.erase(trace_.ops.begin() + 3, trace_.ops.end());
    trace_.ops.push_back(op("sum", {all(kS), half(kY)}, view(kLoss, {})));
    trace_.segments[0].end = 4;
  }
  // Adds ops at which more bytes are live than at all others.
  void make_a_peak() {
    insert(static_cast<int32_t>(trace_.ops.size()), op("make", {}, view(kLarge, {128, 128})));
    insert(static_cast<int32_t>(trace_.ops.size()), op("sum", {view(kLarge, {128, 128})}, view(kLoss, {})));
  }
  Trace fused(bool all = false) const {
    return fuse_norms(trace_, norm_fusion_rules(all), generic_cost_model(), [](const Op&) { return 0; });
  }
  Trace trace_;
};

TEST_F(FuseNorms, TheGradientThatIsAddedTakesNoBytes) {
  only_backward();
  PlanOptions options;
  const Plan before = make_plan(trace_, options);
  options.fusion_rules = std::make_shared<FusionRules>(norm_fusion_rules());
  const Plan after = make_plan(trace_, options);
  EXPECT_THAT(names(after.trace), ElementsAre("make", "make", "fused: norm_backward, add", "sum"));
  EXPECT_EQ(before.arena_bytes - before.persistent_bytes, 4096 + 2048 + 4096);
  EXPECT_EQ(after.arena_bytes - after.persistent_bytes, 4096 + 2048);
  EXPECT_EQ(after.fused_ops, 2);
  EXPECT_EQ(after.trace.ops[2].bytes_moved, 2048 + 4096 + 4096 + 4096);
  EXPECT_EQ(before.trace.ops[2].bytes_moved + before.trace.ops[3].bytes_moved, 2048 + 4096 + 4096 + 3 * 4096);
  EXPECT_LT(after.time.micro, before.time.micro);
  EXPECT_EQ(after.offsets[kDx], -1);
  EXPECT_EQ(find_fault(after), "");
}

TEST_F(FuseNorms, ASumIsReadOnceAndKeepsItsPlace) {
  only_forward();
  make_a_peak();
  PlanOptions options;
  options.fusion_rules = std::make_shared<FusionRules>(norm_fusion_rules());
  const Plan plan = make_plan(trace_, options);
  ASSERT_THAT(names(plan.trace), ElementsAre("make", "fused: add, norm", "sum", "make", "sum"));
  EXPECT_EQ(plan.trace.ops[1].bytes_moved, 3 * 4096 + 2048);
  EXPECT_EQ(plan.arena_bytes - plan.persistent_bytes, 65536 + 64);
  EXPECT_EQ(find_fault(plan), "");
}

// The addend must wait for the norm: r is live together with y, 2048 bytes more than were ever live.
TEST_F(FuseNorms, NoMoreBytesAtThePeak) {
  only_forward();
  EXPECT_THAT(names(fused()), ElementsAre("make", "add", "norm", "sum"));
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "fused: add, norm", "sum"));
  make_a_peak();
  EXPECT_THAT(names(fused()), ElementsAre("make", "fused: add, norm", "sum", "make", "sum"));
}

// One op that takes as long as both is no gain: the ops stay as they were recorded.
TEST_F(FuseNorms, APairThatSavesNoTimeStays) {
  only_backward();
  CostModel cost;
  EXPECT_EQ(names(fuse_norms(trace_, norm_fusion_rules(), cost, {})), names(trace_));
  cost.overhead_seconds = 1e-6;
  EXPECT_EQ(names(fuse_norms(trace_, norm_fusion_rules(), cost, {}))[2], "fused: norm_backward, add");
}

// The merged op stays where it is, and the copy of its sum comes to it.
TEST_F(FuseNorms, ACopyOfTheSumBelongsToTheMergedOp) {
  only_backward();
  make_a_peak();
  const Trace plain = trace_;
  insert(4, op("cast", {all(kGrad)}, half(kY)));
  trace_.ops[5] = op("sum", {all(kGrad), half(kY)}, view(kLoss, {}));
  Trace after = fused();
  ASSERT_EQ(names(after)[2], "fused: norm_backward, add, cast");
  ASSERT_EQ(after.ops.size(), plain.ops.size() - 1);
  EXPECT_EQ(after.ops[2].bytes_moved, 2048 + 4096 + 4096 + 4096 + 2048);
  insert(4, op("other", {all(kX)}, view(kLoss, {})));  // it may be passed
  EXPECT_EQ(names(fused())[2], "fused: norm_backward, add, cast");
  trace_.ops[4] = op("other", {half(kY)}, view(kLoss, {}));  // it reads what was there before
  EXPECT_THAT(names(fused(true)),
              ElementsAre("make", "make", "fused: norm_backward, add", "other", "cast", "sum", "make", "sum"));
}

// Two ops are merged one after the other into the one that reads both.
TEST_F(FuseNorms, SeveralOpsMergeIntoOne) {
  only_backward();
  FusionRules rules = norm_fusion_rules(true);
  rules.pair = [](const Op& first, const Op& second) -> std::optional<Op> {
    if (first.name != "turn" || (second.name != "join" && second.name != "fused: join")) return std::nullopt;
    Op made = second;
    made.name = "fused: join";
    for (Argument& argument : made.arguments)
      if (!argument.written && argument.views[0] == first.arguments[1].views[0])
        argument.views[0] = first.arguments[0].views[0];
    return made;
  };
  trace_.ops = {op("make", {}, all(kR)),
                op("make", {}, all(kS)),
                op("turn", {all(kR)}, all(kDx)),
                op("turn", {all(kS)}, all(kGrad)),
                op("join", {all(kDx), all(kGrad)}, all(kOut)),
                op("sum", {all(kOut)}, view(kLoss, {}))};
  trace_.segments[0].end = 6;
  const Trace after = fuse_norms(trace_, rules, generic_cost_model(), {});
  EXPECT_THAT(names(after), ElementsAre("make", "make", "fused: join", "sum"));
  EXPECT_EQ(after.ops[2].arguments[0].views[0].buffer, kR);
  EXPECT_EQ(after.ops[2].arguments[1].views[0].buffer, kS);
}

TEST_F(FuseNorms, ScratchIsTheNewOps) {
  only_backward();
  for (const int64_t bytes : {100, 4096, 4160}) {
    const Trace after = fuse_norms(trace_, norm_fusion_rules(), generic_cost_model(), [&](const Op& each) {
      return each.name == "fused: norm_backward, add" ? std::optional(bytes) : std::nullopt;
    });
    // More than dx had is more than there was.
    ASSERT_EQ(after.ops.size(), bytes > 4096 ? 5 : 4);
    if (bytes > 4096) continue;
    EXPECT_EQ(after.ops[2].workspace_bytes, (bytes + 63) / 64 * 64);
  }
}

TEST_F(FuseNorms, EitherOrderAndEitherPlace) {
  only_backward();
  trace_.ops[3] = op("add", {all(kDx), all(kGrad)}, all(kGrad));
  EXPECT_EQ(names(fused())[2], "fused: norm_backward, add");
  trace_.ops[3] = op("add", {all(kDx), all(kGrad)}, all(kDx));
  trace_.ops[4] = op("sum", {all(kDx)}, view(kLoss, {}));
  const Trace in_dx = fused();
  ASSERT_EQ(names(in_dx)[2], "fused: norm_backward, add");
  EXPECT_EQ(in_dx.ops[2].arguments.back().views[0].buffer, kDx);
  trace_.ops[3] = op("add", {all(kDx), all(kGrad)}, all(kOut));
  trace_.ops[4] = op("sum", {all(kOut)}, view(kLoss, {}));
  EXPECT_EQ(names(fused())[2], "fused: norm_backward, add");
}

TEST_F(FuseNorms, WhatSomebodyElseReadsStays) {
  only_backward();
  const Trace plain = trace_;
  insert(4, op("sum", {all(kDx)}, view(kLoss, {})));
  EXPECT_EQ(names(fused(true)), names(trace_));
  trace_ = plain;
  trace_.buffers[kDx].output = true;
  EXPECT_EQ(names(fused(true)), names(trace_));
  trace_ = plain;
  trace_.outputs = {{"dx", all(kDx)}};
  EXPECT_EQ(names(fused(true)), names(trace_));
}

TEST_F(FuseNorms, NothingPassesWhoReadsOrWritesTheSame) {
  only_backward();
  const Trace plain = trace_;
  insert(3, op("other", {all(kX)}, view(kLoss, {})));  // neither
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "make", "other", "fused: norm_backward, add", "sum"));
  trace_ = plain;
  insert(3, op("other", {all(kGrad)}, all(kGrad)));  // the second's, which stays behind it
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "make", "other", "fused: norm_backward, add", "sum"));
  trace_ = plain;
  insert(3, op("other", {}, half(kGradY)));  // writes what the first reads: the second comes to it
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "make", "fused: norm_backward, add", "other", "sum"));
  trace_ = plain;
  insert(3, op("other", {all(kGrad)}, half(kGradY)));  // in the way of both
  EXPECT_EQ(names(fused(true)), names(trace_));
  trace_ = plain;
  for (int i = 0; i < 300; ++i) insert(3, op("other", {all(kX)}, view(kLoss, {})));  // too far
  EXPECT_EQ(names(fused(true)), names(trace_));
}

TEST_F(FuseNorms, ASumThatIsReadBetweenIsThereInTime) {
  only_forward();
  insert(2, op("other", {all(kS)}, view(kLoss, {})));
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "fused: add, norm", "other", "sum"));
  trace_.ops[2] = op("other", {all(kS)}, all(kS));
  EXPECT_EQ(names(fused(true)), names(trace_));
}

// A wait for a copy writes nothing, but the copied value does not exist before it.
TEST_F(FuseNorms, NothingPassesTheCopyOfWhatItReads) {
  only_backward();
  insert(3, op("other", {}, half(kGradY)));  // the first op keeps its position
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "make", "fused: norm_backward, add", "other", "sum"));
  Op wait = op("copy_to_device", {all(kGrad), all(kOut)}, view(kLoss, {}));
  wait.arguments.pop_back();
  wait.copy = CopyStage::wait;
  insert(4, wait);
  EXPECT_EQ(names(fused(true)), names(trace_));
}

// The second moves up: what it makes is there earlier.
TEST_F(FuseNorms, NoMoreBytesWhereTheSecondMovesUp) {
  only_backward();
  trace_.ops[3] = op("add", {all(kGrad), all(kDx)}, all(kOut));
  trace_.ops[4] = op("sum", {all(kOut)}, view(kLoss, {}));
  insert(3, op("other", {}, half(kGradY)));
  EXPECT_THAT(names(fused()), ElementsAre("make", "make", "fused: norm_backward, add", "other", "sum"));
  // dx is gone, but `out` is live together with grad_y: 2048 bytes of the previous peak are left.
  for (const int64_t bytes : {2048, 2112}) {
    const Trace after = fuse_norms(trace_, norm_fusion_rules(), generic_cost_model(), [&](const Op&) { return bytes; });
    EXPECT_EQ(after.ops.size(), bytes > 2048 ? 6 : 5);
  }
}

TEST_F(FuseNorms, LeavesWhatDoesNotRunOnTheDeviceOrInOnePhase) {
  only_backward();
  const Trace plain = trace_;
  for (const int at : {2, 3}) {
    trace_.ops[at].on_host = true;
    EXPECT_EQ(names(fused(true)), names(trace_));
    trace_ = plain;
    trace_.ops[at].random_id = 1;
    EXPECT_EQ(names(fused(true)), names(trace_));
    trace_ = plain;
    trace_.ops[at].phase = Phase::update;
    EXPECT_EQ(names(fused(true)), names(trace_));
    trace_ = plain;
  }
  trace_.segments = {{SegmentKind::micro, 0, 3}, {SegmentKind::update, 3, 5}};
  EXPECT_EQ(names(fused(true)), names(trace_));
  trace_.segments = {{SegmentKind::initialize, 0, 5}};
  EXPECT_EQ(names(fused(true)), names(trace_));
}

// The product would disappear; of the sum only the second read would.
TEST_F(FuseNorms, ASumOfAProductIsLeftToTheChain) {
  only_forward();
  make_a_peak();
  trace_.ops[0] = op("mul", {all(kX), all(kX)}, all(kR));
  EXPECT_EQ(names(fused(true)), names(trace_));
  const Trace chained = fuse_pointwise(fused(), norm_fusion_rules(), generic_cost_model());
  EXPECT_THAT(names(chained), ElementsAre("fused: mul, add", "norm", "sum", "make", "sum"));
  // A product that another op reads too stays in any case.
  insert(3, op("other", {all(kR)}, view(kLoss, {})));
  EXPECT_EQ(names(fused())[1], "fused: add, norm");
}

TEST_F(FuseNorms, WithoutKernelsNothingChanges) {
  FusionRules none = norm_fusion_rules(true);
  none.pair = nullptr;
  EXPECT_EQ(names(fuse_norms(trace_, none, generic_cost_model(), {})), names(trace_));
}

// A world of floats: what ops do to it, one by one and fused.
using World = std::vector<double>;

void run_norms(const Op& op, World& world) {
  const auto at = [&](size_t argument) -> double& { return world[op.arguments[argument].views[0].buffer]; };
  if (op.name == "add") {
    at(2) = at(0) + at(1);
  } else if (op.name == "norm") {
    at(1) = 2 * at(0) + 1;
  } else if (op.name == "norm_backward") {
    at(2) = 3 * at(0) - at(1);
  } else if (op.name == "fused: add, norm") {
    at(2) = at(0) + at(1);
    at(3) = 2 * at(2) + 1;
  } else if (op.name == "fused: norm_backward, add") {
    at(3) = at(2) + (3 * at(0) - at(1));
  } else if (op.name == "fused: norm_backward, add, cast") {
    at(3) = at(2) + (3 * at(0) - at(1));
    at(4) = at(3) + 0.5;
  } else if (op.name == "cast") {
    at(1) = at(0) + 0.5;
  } else {
    at(1) = 5 - at(0);
  }
}

// Any schedule of such ops on a few buffers gives the same results fused, with no more bytes live than before.
TEST(FuseNormsRandom, DoesTheSame) {
  int64_t fused_in_all = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint32_t>(below)); };
    Trace trace;
    trace.modules = {""};
    constexpr int kBuffers = 14;
    for (int b = 0; b < kBuffers; ++b) trace.buffers.push_back({256, Role::temporary, b < 3, b == 3, "b"});
    std::vector<int> likely = {0, 1, 2};  // written in the last ops
    const auto source = [&] {
      return view(draw(3) > 0 ? likely[likely.size() - 1 - draw(std::min<int>(3, likely.size()))] : draw(kBuffers),
                  {8, 8});
    };
    const int count = 6 + draw(24);
    while (static_cast<int>(trace.ops.size()) < count) {
      const View a = source(), b = source(), to = view(draw(kBuffers), {8, 8});
      const bool apart = to.buffer != a.buffer && to.buffer != b.buffer;
      const int kind = draw(9);
      if (kind < 3)
        trace.ops.push_back(op("add", {a, b}, to));
      else if (kind < 5 && apart)
        trace.ops.push_back(op("norm", {a}, to));
      else if (kind < 7 && apart)
        trace.ops.push_back(op("norm_backward", {a, b}, to));
      else if (kind == 8 && apart)
        trace.ops.push_back(op("cast", {a}, to));
      else
        trace.ops.push_back(op("other", {a}, to));
      likely.push_back(to.buffer);
    }
    trace.segments = {{SegmentKind::micro, 0, static_cast<int32_t>(trace.ops.size())}};
    FusionRules pairs = norm_fusion_rules(seed % 2 == 0);
    if (seed % 3 > 0) pairs.translate = [](const Op&) { return std::nullopt; };
    const Trace after = fuse_norms(trace, pairs, generic_cost_model(), {});
    fused_in_all += fused_ops_of(after);
    World plain(kBuffers), world;
    for (double& number : plain) number = draw(5);
    world = plain;
    for (const Op& each : trace.ops) run_norms(each, plain);
    for (const Op& each : after.ops) run_norms(each, world);
    for (int b = 0; b <= 3; ++b) ASSERT_EQ(plain[b], world[b]) << "seed " << seed << ", buffer " << b;
    if (pairs.all) continue;
    const auto most = [](const Trace& each) {
      return std::ranges::max(transient_bytes_by_op(each, lifetimes_of(each)));
    };
    EXPECT_LE(most(after), most(trace)) << "seed " << seed;
  }
  EXPECT_GT(fused_in_all, 200);
}

}  // namespace
}  // namespace plimsoll
