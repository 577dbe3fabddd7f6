#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/passes/fused_group.h"
#include "plan/placement/assign_offsets.h"
#include "plan/placement/validator.h"
#include "plan/trace_text.h"
#include "plimsoll/planner.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::names;
using testing::op;
using testing::view;

// The programs that were made, instead of calls of libtorch's.
std::shared_ptr<const OpCall> kept(const FusedProgram& program) {
  const auto copy = std::make_shared<FusedProgram>(program);
  return {copy, reinterpret_cast<const OpCall*>(copy.get())};
}
const FusedProgram& program_of(const Op& op) {
  return *reinterpret_cast<const FusedProgram*>(op.call.get());
}

// "add", "mul" and "cast" are opcodes; everything else is none.
std::optional<PointwiseOp> translate_pointwise(const Op& op) {
  static const std::vector<std::pair<std::string, Opcode>> known = {
      {"add", Opcode::add}, {"mul", Opcode::mul}, {"cast", Opcode::cast}, {"gelu", Opcode::gelu}};
  for (const auto& [name, opcode] : known) {
    if (op.name != name) continue;
    PointwiseOp made;
    made.opcode = opcode;
    for (const Argument& argument : op.arguments)
      if (!argument.written) made.operands.push_back({argument.views[0], 0});
    made.result = op.arguments.back().views[0];
    return made;
  }
  return std::nullopt;
}

FusionRules pointwise_fusion_rules(bool all = false) {
  return {all, translate_pointwise, kept};
}

// x -> [mul by s] -> t -> [add y] -> u -> [cast] -> low, and an op that reads low.
class FusePointwise : public ::testing::Test {
 protected:
  FusePointwise() {
    trace_.modules = {""};
    trace_.buffers = {{4096, Role::input, true, false, "x"},      {4, Role::input, true, false, "s"},
                      {4096, Role::input, true, false, "y"},      {4096, Role::temporary, false, false, "t"},
                      {4096, Role::temporary, false, false, "u"}, {2048, Role::temporary, false, false, "low"},
                      {4096, Role::input, true, false, "z"},      {4, Role::temporary, false, true, "loss"}};
    trace_.ops = {op("mul", {all(0), view(1, {})}, all(3)), op("add", {all(3), all(2)}, all(4)),
                  op("cast", {all(4)}, all(5, DType::bfloat16)), op("sum", {all(5, DType::bfloat16)}, view(7, {}))};
    trace_.segments = {{SegmentKind::micro, 0, 4}};
    trace_.inputs = {{"x", all(0)}, {"s", view(1, {})}, {"y", all(2)}, {"z", all(6)}};
  }
  static View all(BufferId buffer, DType dtype = DType::float32) { return view(buffer, {32, 32}, dtype); }
  void insert(int32_t at, Op op) {
    trace_.ops.insert(trace_.ops.begin() + at, std::move(op));
    ++trace_.segments[0].end;
  }
  Trace fused(bool all = false) const {
    return fuse_pointwise(trace_, pointwise_fusion_rules(all), generic_cost_model());
  }
  Trace trace_;
};

TEST_F(FusePointwise, WhatOneHandsToTheNextTakesNoBytes) {
  PlanOptions options;
  const Plan before = make_plan(trace_, options);
  options.fusion_rules = std::make_shared<FusionRules>(pointwise_fusion_rules());
  const Plan after = make_plan(trace_, options);
  EXPECT_THAT(names(after.trace), ElementsAre("fused: mul, add, cast", "sum"));
  EXPECT_EQ(before.arena_bytes - before.persistent_bytes, 4096 + 4096);
  EXPECT_EQ(after.arena_bytes - after.persistent_bytes, 2048 + 64);
  EXPECT_EQ(after.fused_ops, 3);
  EXPECT_EQ(after.trace.ops[0].bytes_moved, 4096 + 4 + 4096 + 2048);
  EXPECT_LT(after.time.micro, before.time.micro);
  EXPECT_EQ(find_fault(after), "");
}

TEST_F(FusePointwise, ProgramAndViewsSayTheSame) {
  const Trace after = fused();
  const FusedProgram& program = program_of(after.ops[0]);
  ASSERT_EQ(program.inputs, 3);
  EXPECT_THAT(program.steps, ElementsAre(FusedProgram::Step{Opcode::mul, DType::float32, {0, 1}},
                                         FusedProgram::Step{Opcode::add, DType::float32, {3, 2}},
                                         FusedProgram::Step{Opcode::cast, DType::bfloat16, {4}}));
  EXPECT_THAT(program.outputs, ElementsAre(5));
  EXPECT_EQ(fused_program(program.code(), program.constants), program);
  const std::vector<View>& inputs = after.ops[0].arguments[0].views;
  EXPECT_THAT(inputs[0].sizes, ElementsAre(1024));
  EXPECT_THAT(inputs[1].strides, ElementsAre(0));
  EXPECT_EQ(after.ops[0].arguments[1].views[0].buffer, 5);
}

TEST_F(FusePointwise, WhatOthersReadIsStored) {
  insert(4, op("sum", {all(4)}, view(7, {})));
  const Trace after = fused();
  EXPECT_THAT(names(after), ElementsAre("fused: mul, add, cast", "sum", "sum"));
  EXPECT_THAT(program_of(after.ops[0]).outputs, ElementsAre(4, 5));
}

TEST_F(FusePointwise, NothingPassesWhoReadsOrWritesTheSame) {
  Trace plain = trace_;
  insert(1, op("other", {all(3)}, view(7, {})));  // reads t, which mul writes: mul must stay before it
  EXPECT_THAT(names(fused()), ElementsAre("mul", "other", "fused: add, cast", "sum"));
  trace_ = plain;
  insert(1, op("other", {}, all(0)));  // writes x, which mul reads
  EXPECT_THAT(names(fused()), ElementsAre("mul", "other", "fused: add, cast", "sum"));
  trace_ = plain;
  insert(1, op("other", {all(0)}, all(6)));  // neither
  EXPECT_THAT(names(fused()), ElementsAre("other", "fused: mul, add, cast", "sum"));
  trace_ = plain;
  trace_.ops[1].phase = Phase::update;
  EXPECT_THAT(names(fused()), ElementsAre("mul", "add", "cast", "sum"));
}

TEST_F(FusePointwise, LeavesWhatDoesNotRunOnTheDevice) {
  Trace plain = trace_;
  trace_.ops[1].on_host = true;
  EXPECT_THAT(names(fused()), ElementsAre("mul", "add", "cast", "sum"));
  trace_ = plain;
  trace_.ops[1].random_id = 3;
  EXPECT_THAT(names(fused()), ElementsAre("mul", "add", "cast", "sum"));
}

TEST_F(FusePointwise, InPlaceSumsKeepTheirPlace) {
  trace_.ops[1] = op("add", {all(6), all(3)}, all(6));  // z += t, and z is the world's
  trace_.ops[2] = op("cast", {all(6)}, all(5, DType::bfloat16));
  const Trace after = fused();
  ASSERT_THAT(names(after), ElementsAre("fused: mul, add, cast", "sum"));
  EXPECT_EQ(after.ops[0].arguments[1].views[0].buffer, 6);
  // Another part of z than is written: it may be overwritten before it is read.
  trace_.buffers[6].bytes = 8192;
  trace_.ops[1].arguments[0].views[0].offset = 16;
  trace_.ops[1].bytes_moved = 12288;
  EXPECT_THAT(names(fused()), ElementsAre("mul", "add", "cast", "sum"));
}

// An op with scratch (a cast of an operand) loses its scratch; for an op without scratch there is no gain.
TEST_F(FusePointwise, ASingleOpLosesItsScratch) {
  trace_.ops = {op("add", {all(0), all(2)}, all(4)), op("sum", {all(4)}, view(7, {}))};
  trace_.segments[0].end = 2;
  EXPECT_THAT(names(fused(true)), ElementsAre("add", "sum"));
  trace_.ops[0].workspace_bytes = 4096;
  const Trace after = fused();
  EXPECT_THAT(names(after), ElementsAre("fused: add", "sum"));
  EXPECT_EQ(after.ops[0].workspace_bytes, 0);
}

// Waiting for the last would keep w live at the peak: only `all` does it.
TEST_F(FusePointwise, NoMoreBytesAtThePeak) {
  trace_.buffers.push_back({4096, Role::temporary, false, false, "w"});
  trace_.buffers.push_back({65536, Role::temporary, false, false, "large"});
  trace_.ops = {op("make", {}, all(8)),
                op("cast", {all(8)}, all(5, DType::bfloat16)),
                op("make", {}, view(9, {128, 128})),
                op("sum", {view(9, {128, 128})}, view(7, {})),
                op("cast", {all(5, DType::bfloat16)}, all(3)),
                op("sum", {all(3)}, view(7, {}))};
  trace_.segments[0].end = 6;
  EXPECT_THAT(names(fused()), ElementsAre("make", "cast", "make", "sum", "cast", "sum"));
  EXPECT_THAT(names(fused(true)), ElementsAre("make", "make", "sum", "fused: cast, cast", "sum"));
}

TEST_F(FusePointwise, ShapesThatAreTheSameInMemory) {
  // [32, 32] and [1024] of whole buffers; rows of a wider matrix; a transposed one is not.
  trace_.ops[1] = op("add", {view(3, {1024}), view(2, {1024})}, view(4, {1024}));
  EXPECT_THAT(names(fused()), ElementsAre("fused: mul, add, cast", "sum"));
  trace_.buffers[0].bytes = 8192;
  trace_.ops[0].arguments[0].views[0].strides = {64, 1};
  const Trace rows = fused();
  ASSERT_THAT(names(rows), ElementsAre("fused: mul, add, cast", "sum"));
  EXPECT_THAT(rows.ops[0].arguments[0].views[0].strides, ElementsAre(64, 1));
  EXPECT_THAT(rows.ops[0].arguments[0].views[2].strides, ElementsAre(32, 1));
  trace_.ops[0].arguments[0].views[0].strides = {1, 32};
  EXPECT_THAT(names(fused()), ElementsAre("mul", "fused: add, cast", "sum"));
}

TEST(Iteration, WalksAreEqualWhereTheirElementsAre) {
  const auto walk = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    View view{0, DType::float32, 0, sizes, strides};
    return walk_of(sizes, strides, memory_order(view));
  };
  EXPECT_EQ(walk({4, 6}, {6, 1}), walk({24}, {1}));
  EXPECT_EQ(walk({4, 1, 6}, {6, 99, 1}), walk({24}, {1}));
  EXPECT_EQ(walk({6, 4}, {1, 6}), walk({24}, {1}));  // dense in another order
  EXPECT_NE(walk({4, 6}, {8, 1}), walk({24}, {1}));
  EXPECT_TRUE(walk({1, 1}, {5, 5}).dense());
  EXPECT_EQ(common_sizes({walk({4, 6}, {8, 1}), walk({24}, {1})}, 24), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(strides_over(walk({24}, {1}), {4, 6}), (std::vector<int64_t>{6, 1}));
  EXPECT_EQ(common_sizes({walk({4, 6}, {8, 1}), walk({3, 8}, {16, 1})}, 24), std::nullopt);
}

// A world of floats: what ops do to it, one by one and fused.
using WorldOfElements = std::vector<std::vector<double>>;

void for_each_element(const View& view, const std::function<void(int64_t, int64_t)>& visit) {
  for (int64_t i = 0; i < view.elements(); ++i) {
    int64_t rest = i, offset = view.offset;
    for (size_t d = view.sizes.size(); d-- > 0;) {
      offset += rest % view.sizes[d] * view.strides[d];
      rest /= view.sizes[d];
    }
    visit(i, offset);
  }
}
double apply(Opcode opcode, double a, double b) {
  return opcode == Opcode::add ? a + b : opcode == Opcode::mul ? a * b : a;
}
void run_pointwise(const Op& op, WorldOfElements& world) {
  if (is_fused(op)) {
    const FusedProgram& program = program_of(op);
    const int64_t count = op.arguments[1].views[0].elements();
    std::vector<std::vector<double>> values(program.values(), std::vector<double>(count));
    for (int32_t i = 0; i < program.inputs; ++i) {
      const View& input = op.arguments[0].views[i];
      for_each_element(input, [&](int64_t at, int64_t offset) { values[i][at] = world[input.buffer][offset]; });
    }
    for (size_t s = 0; s < program.steps.size(); ++s)
      for (int64_t at = 0; at < count; ++at)
        values[program.first_step() + s][at] = apply(program.steps[s].opcode, values[program.steps[s].operands[0]][at],
                                                     values[program.steps[s].operands[1]][at]);
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const View& output = op.arguments[1].views[o];
      for_each_element(
          output, [&](int64_t at, int64_t offset) { world[output.buffer][offset] = values[program.outputs[o]][at]; });
    }
    return;
  }
  const View& result = op.arguments.back().views[0];
  std::vector<double> values(result.elements(), op.name == "other" ? 3 : 0);
  for (size_t a = 0; a + 1 < op.arguments.size(); ++a) {
    View operand = op.arguments[a].views[0];
    operand.strides = broadcast_strides(operand, result.sizes).value();
    operand.sizes = result.sizes;
    for_each_element(operand, [&](int64_t at, int64_t offset) {
      const double read = world[operand.buffer][offset];
      values[at] = a == 0 ? read : op.name == "mul" ? values[at] * read : values[at] + read;
    });
  }
  for_each_element(result, [&](int64_t at, int64_t offset) { world[result.buffer][offset] = values[at]; });
}

// Any schedule of pointwise and other ops on a few buffers, in place or not, whole or in part, gives the same results
// fused.
TEST(FuseRandom, DoesTheSame) {
  int64_t fused_in_all = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint32_t>(below)); };
    Trace trace;
    trace.modules = {""};
    constexpr int kBuffers = 7;
    for (int b = 0; b < kBuffers; ++b) trace.buffers.push_back({256, Role::temporary, b < 3, b == 3, "b"});
    const auto any_view = [&](bool written) -> View {
      const auto buffer = static_cast<BufferId>(draw(kBuffers));
      switch (draw(8)) {
        case 0:
          return {buffer, DType::float32, 0, {4, 8}, {16, 1}};
        case 1:
          return {buffer, DType::float32, 8, {4, 8}, {16, 1}};
        case 2:
          return written ? View{buffer, DType::float32, 0, {8, 8}, {8, 1}}
                         : View{buffer, DType::float32, draw(8), {8}, {1}};
        case 3:
          return written ? View{buffer, DType::float32, 0, {8, 8}, {8, 1}}
                         : View{buffer, DType::float32, draw(64), {}, {}};
        case 4:
          return {buffer, DType::float32, 0, {8, 8}, {1, 8}};
        default:
          return {buffer, DType::float32, 0, {8, 8}, {8, 1}};
      }
    };
    const int count = 6 + draw(20);
    while (static_cast<int>(trace.ops.size()) < count) {
      const View result = any_view(true);
      const int kind = draw(10);
      const View a = any_view(false), b = any_view(false);
      if (!broadcast_strides(a, result.sizes) || !broadcast_strides(b, result.sizes)) continue;
      // libtorch refuses operands that overlap the result in part.
      const auto overlaps = [&](const View& v) { return v.buffer == result.buffer && v != result; };
      if (overlaps(a) || overlaps(b)) continue;
      if (kind < 4)
        trace.ops.push_back(op("add", {a, b}, result));
      else if (kind < 6)
        trace.ops.push_back(op("mul", {a, b}, result));
      else if (kind < 8)
        trace.ops.push_back(op("cast", {a}, result));
      else
        trace.ops.push_back(op("other", {a}, result));
    }
    trace.segments = {{SegmentKind::micro, 0, static_cast<int32_t>(trace.ops.size())}};
    const Trace after = fuse_pointwise(trace, pointwise_fusion_rules(seed % 2 == 0), generic_cost_model());
    fused_in_all += fused_ops_of(after);
    WorldOfElements plain(kBuffers, std::vector<double>(64)), world;
    for (auto& buffer : plain)
      for (double& number : buffer) number = draw(5);
    world = plain;
    for (const Op& each : trace.ops) run_pointwise(each, plain);
    for (const Op& each : after.ops) run_pointwise(each, world);
    for (int b = 0; b <= 3; ++b) ASSERT_EQ(plain[b], world[b]) << "seed " << seed << ", buffer " << b;
  }
  EXPECT_GT(fused_in_all, 1000);
}

}  // namespace
}  // namespace plimsoll
