// Tests predicted times of ops and of copies that overlap them, computed by hand.
#include "cost/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "cost/operators.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// The link to the host copies one byte a second each way, the link to the disk half a byte. Ops that are no copies take
// one second.
CostModel one_byte_a_second() {
  CostModel cost;
  cost.host_link = 1;
  cost.disk_link = 0.5;
  cost.measured_seconds = [](const Op&) { return std::optional<double>(1); };
  return cost;
}

// A segment "micro" of copies and other ops, each copy of `bytes` between its own buffers.
class CopyTimes : public ::testing::Test {
 protected:
  // Returns the number of the copy, for wait_for().
  int start(Memory target, Memory source, int64_t bytes) {
    const auto id = static_cast<BufferId>(trace_.buffers.size());
    trace_.buffers.push_back({.bytes = bytes, .memory = target});
    trace_.buffers.push_back({.bytes = bytes, .memory = source});
    copies_.push_back(copy_op(CopyStage::start, id, bytes));
    trace_.ops.push_back(copies_.back());
    return static_cast<int>(copies_.size()) - 1;
  }
  int start_out(int64_t bytes) { return start(Memory::host, Memory::device, bytes); }
  int start_in(int64_t bytes) { return start(Memory::device, Memory::host, bytes); }
  void wait_for(int copy) {
    trace_.ops.push_back(copies_[copy]);
    trace_.ops.back().copy = CopyStage::wait;
  }
  void compute() { trace_.ops.emplace_back(); }
  std::vector<double> ends() {
    trace_.segments = {{SegmentKind::micro, 0, static_cast<int32_t>(trace_.ops.size())}};
    return end_times(cost_, trace_, SegmentKind::micro);
  }

  CostModel cost_ = one_byte_a_second();
  Trace trace_;

 private:
  Op copy_op(CopyStage stage, BufferId target, int64_t bytes) const {
    Op op;
    op.copy = stage;
    op.offload_memory = std::max(trace_.buffers[target].memory, trace_.buffers[target + 1].memory);
    op.bytes_moved = 2 * bytes;
    for (const BufferId buffer : {target, target + 1})
      op.arguments.push_back({Argument::Kind::tensor, buffer == target, {{buffer, DType::uint8, 0, {bytes}, {1}}}});
    return op;
  }
  std::vector<Op> copies_;
};

TEST_F(CopyTimes, ACopyOutAndACopyInOverlap) {
  const int out = start_out(10), in = start_in(7);
  wait_for(in);
  wait_for(out);
  EXPECT_THAT(ends(), ElementsAre(0, 0, 7, 10));
  EXPECT_EQ(segment_seconds(cost_, trace_, SegmentKind::micro), 10);
}

// At half speed while both directions copy: the copy in takes 14 seconds, in which 7 of 10 bytes are copied out.
TEST_F(CopyTimes, TwoDirectionsSlowEachOtherDown) {
  cost_.host_link_duplex = 0.5;
  const int out = start_out(10), in = start_in(7);
  wait_for(in);
  wait_for(out);
  EXPECT_THAT(ends(), ElementsAre(0, 0, 14, 17));
}

TEST_F(CopyTimes, ADirectionIsSlowOnlyWhileTheOtherCopies) {
  cost_.host_link_duplex = 0.5;
  const int out = start_out(4);
  compute();
  compute();
  const int in = start_in(3);  // 2 bytes are still to be copied out, which takes 4 seconds
  wait_for(out);
  const int later = start_out(2);  // the copy in has 1 byte left
  wait_for(in);
  wait_for(later);
  EXPECT_THAT(ends(), ElementsAre(0, 1, 2, 2, 6, 6, 8, 9));
}

TEST_F(CopyTimes, CopiesToDiskAndFromTheHostDoNotSlowEachOtherDown) {
  cost_.host_link_duplex = 0.5;
  const int out = start(Memory::disk, Memory::device, 4), in = start_in(7);
  wait_for(in);
  wait_for(out);
  EXPECT_THAT(ends(), ElementsAre(0, 0, 7, 8));
}

// Random copies with a speed just below 1 end when those of two independent directions end.
TEST_F(CopyTimes, SpeedsNearOneAreThoseOfIndependentDirections) {
  std::mt19937 random(7);
  std::vector<int> copies;
  for (int i = 0; i < 200; ++i) {
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 5);
    switch (random() % 4) {
      case 0:
        copies.push_back(start_out(bytes));
        break;
      case 1:
        copies.push_back(start_in(bytes));
        break;
      case 2:
        compute();
        break;
      default:
        if (!copies.empty()) wait_for(copies[random() % copies.size()]);
    }
  }
  const std::vector<double> independent = ends();
  cost_.host_link_duplex = 1 - 1e-12;
  const std::vector<double> shared = ends();
  ASSERT_EQ(shared.size(), independent.size());
  for (size_t i = 0; i < shared.size(); ++i) EXPECT_NEAR(shared[i], independent[i], 1e-6) << i;
}

TEST_F(CopyTimes, TwoCopiesOutShareTheLink) {
  const int first = start_out(10), second = start_out(7);
  wait_for(first);
  wait_for(second);
  EXPECT_THAT(ends(), ElementsAre(0, 0, 10, 17));
}

TEST_F(CopyTimes, TwoCopiesInShareTheLink) {
  const int first = start_in(10), second = start_in(7);
  wait_for(second);
  wait_for(first);
  EXPECT_THAT(ends(), ElementsAre(0, 0, 17, 17));  // the link does them in the order of their starts
}

TEST_F(CopyTimes, OpsOverlapACopyUntilTheyWaitForIt) {
  const int out = start_out(3);
  compute();
  compute();
  wait_for(out);
  compute();
  const int later = start_out(2);  // at second 4; the link is free since second 3
  compute();
  compute();
  wait_for(later);
  EXPECT_THAT(ends(), ElementsAre(0, 1, 2, 3, 4, 4, 5, 6, 6));
}

TEST_F(CopyTimes, ACopyToDiskTakesTheTimeOfTheDisksLink) {
  wait_for(start(Memory::disk, Memory::device, 4));
  wait_for(start(Memory::device, Memory::disk, 4));
  EXPECT_THAT(ends(), ElementsAre(0, 8, 8, 16));
}

TEST_F(CopyTimes, CopiesThatDoNotOverlapTakeTheirTimeWhereTheyStart) {
  cost_.copies_overlap = false;
  const int out = start_out(10), in = start_in(7);
  wait_for(in);
  wait_for(out);
  EXPECT_THAT(ends(), ElementsAre(10, 17, 17, 17));
}

TEST_F(CopyTimes, EachStartTakesTheOverheadOfAnOp) {
  cost_.overhead_seconds = 0.25;
  const int out = start_out(10), in = start_in(7);
  wait_for(in);
  wait_for(out);
  EXPECT_THAT(ends(), ElementsAre(0.25, 0.5, 7.5, 10.25));
}

TEST_F(CopyTimes, OnlyOpsOfTheSegmentCount) {
  compute();
  wait_for(start_out(10));
  ends();
  trace_.segments = {{SegmentKind::micro, 0, 1}, {SegmentKind::update, 1, 3}};
  EXPECT_THAT(end_times(cost_, trace_, SegmentKind::micro), ElementsAre(1));
  EXPECT_THAT(end_times(cost_, trace_, SegmentKind::update), ElementsAre(0, 10));
  EXPECT_THAT(end_times(cost_, trace_, SegmentKind::evaluate), ElementsAre());
  EXPECT_EQ(segment_seconds(cost_, trace_, SegmentKind::evaluate), 0);
}

// A GPU of four multiprocessors, each of which takes a second for a tile of 128 x 128 x 100 and 0.5 s for its loads.
CostModel four_multiprocessors() {
  CostModel cost;
  for (auto& kind : cost.rates) kind.fill({4 * 2.0 * 128 * 128 * 100, 1e6});
  cost.gpu = {.is_gpu = true, .multiprocessors = 4, .tile_seconds = 0.5, .attention_backward = 0.5};
  return cost;
}

Op matmul(int64_t rows, int64_t depth, int64_t columns) {
  Op op;
  op.name = "aten::mm";
  op.arguments = {{Argument::Kind::tensor, false, {{0, DType::bfloat16, 0, {rows, depth}, {depth, 1}}}},
                  {Argument::Kind::tensor, false, {{1, DType::bfloat16, 0, {depth, columns}, {columns, 1}}}}};
  op.flops = 2.0 * static_cast<double>(rows * depth * columns);
  return op;
}

TEST(GpuTimes, TilesOfAMatmulRunInWaves) {
  const CostModel cost = four_multiprocessors();
  EXPECT_DOUBLE_EQ(seconds_of(cost, matmul(512, 100, 128)), 1.5);  // four tiles, one wave
  EXPECT_DOUBLE_EQ(seconds_of(cost, matmul(1024, 100, 128)), 3);   // two waves
  EXPECT_DOUBLE_EQ(seconds_of(cost, matmul(513, 100, 128)), 3);    // a fifth tile of a single row
  EXPECT_DOUBLE_EQ(seconds_of(cost, matmul(100, 100, 100)), 1);    // four smaller tiles, each at half the speed
}

TEST(GpuTimes, ADeepSumIsDividedAmongMultiprocessors) {
  const CostModel cost = four_multiprocessors();
  // Four parts of a tile, each a fourth as deep, and their sums in float32, written and read.
  EXPECT_DOUBLE_EQ(seconds_of(cost, matmul(128, 4000, 128)), 10 + 0.5 + 2.0 * 4 * 4 * 128 * 128 / 1e6);
}

TEST(GpuTimes, StagedBytesAreAddedToTheMatmuls) {
  CostModel cost = four_multiprocessors();
  Op op = matmul(512, 100, 128);
  op.staged_bytes = 3'000'000;
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 1.5 + 3);
  cost.gpu = {};
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 1);  // rates that were measured have them
}

TEST(CpuTimes, AQuantizedWeightIsDequantizedOnceACall) {
  CostModel cost = four_multiprocessors();
  cost.gpu = {};
  Op op = matmul(512, 100, 128);
  op.name = "plimsoll::quantized_linear";
  op.arguments[1].views[0] = {1, DType::uint8, 0, {128, 50}, {50, 1}};
  op.results = {{2, DType::bfloat16, 0, {512, 128}, {128, 1}}};
  const double flops = cost.rate(OpKind::product, DType::float32).flops;
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 1 + 100 * 128 * 15 / flops);
  op.arguments[1].views[0] = {1, DType::int8, 0, {128, 100}, {100, 1}};
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 1 + 100 * 128 * 10 / flops);
}

TEST(GpuTimes, AttentionsBackwardHasARateOfItsOwn) {
  const CostModel cost = four_multiprocessors();
  Op op;
  op.flops = cost.rate(OpKind::attention, DType::float32).flops;
  op.name = "plimsoll::attention";
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 1);
  op.name = "plimsoll::attention_backward";
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 2);
}

// A GPU whose multiprocessors are not known: tiles are not modeled, all else is.
TEST(GpuTimes, AGpuWithoutTilesStagesBytesToo) {
  CostModel cost = four_multiprocessors();
  cost.gpu.multiprocessors = 0;
  Op op = matmul(513, 100, 128);
  op.staged_bytes = 3'000'000;
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 513 / 512.0 + 3);
  op.name = "plimsoll::attention_backward";
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 2 * 513 / 512.0 + 3);
}

// Attention over 1000 scores: 64 values a query, forward two matmuls, backward five.
Op small_attention(bool backward, DType dtype = DType::float16) {
  Op op;
  op.name = backward ? "plimsoll::attention_backward" : "plimsoll::attention";
  op.arguments.assign(backward ? 2 : 1,
                      {Argument::Kind::tensor, false, {{0, dtype, 0, {1, 1, 10, 64}, {640, 640, 64, 1}}}});
  op.flops = (backward ? 5 : 2) * 2.0 * 1000 * 64;
  return op;
}

TEST(GpuTimes, WithoutFlashKernelsScoresGoThroughMemory) {
  EXPECT_DOUBLE_EQ(score_bytes_of(small_attention(false)), 12'000);
  EXPECT_DOUBLE_EQ(score_bytes_of(small_attention(true)), 26'000);
  EXPECT_DOUBLE_EQ(score_bytes_of(small_attention(true, DType::float32)), 36'000);
  CostModel cost = four_multiprocessors();
  const double flash = seconds_of(cost, small_attention(true));
  cost.gpu.flash_attention = false;
  EXPECT_DOUBLE_EQ(seconds_of(cost, small_attention(true)), flash + 26'000 / 1e6);
}

TEST(Flops, TheLossHeadHasNoMatmulForAGradientThatIsNotRequested) {
  Op op = matmul(512, 100, 128);
  op.name = "plimsoll::linear_cross_entropy";
  op.arguments[1].views[0].sizes = {128, 100};
  op.results.assign(4, {kNoBuffer, DType::bfloat16, 0, {512, 100}, {100, 1}});
  const double logits = 2.0 * 512 * 100 * 128;
  EXPECT_DOUBLE_EQ(flops_of(op), 3 * logits);
  op.results[3].sizes = {0};
  EXPECT_DOUBLE_EQ(flops_of(op), 2 * logits);
  op.results[2].sizes = {0};
  EXPECT_DOUBLE_EQ(flops_of(op), logits);
}

TEST(Uncertainty, IsTheMeanOverAMicroBatch) {
  CostModel cost = four_multiprocessors();
  Trace trace;
  trace.ops = {matmul(512, 100, 128), matmul(512, 100, 128), Op{}};  // 3 s of matmuls
  trace.ops[2].name = "aten::add";
  trace.ops[2].bytes_moved = 1'000'000;  // 1 s
  EXPECT_EQ(step_uncertainty(cost, trace), 0);
  cost.uncertainty[static_cast<int>(OpKind::product)] = 0.04;
  EXPECT_DOUBLE_EQ(step_uncertainty(cost, trace), 0.03);
  cost.uncertainty[static_cast<int>(OpKind::streaming)] = 0.16;
  EXPECT_DOUBLE_EQ(step_uncertainty(cost, trace), 0.07);
  trace.segments = {{SegmentKind::micro, 2, 3}};
  EXPECT_DOUBLE_EQ(step_uncertainty(cost, trace), 0.16);
}

// The sum of a matmul may have a wider type than its factors.
TEST(MatmulTimes, AMatmulThatAddsComputesInTheTypeOfItsFactors) {
  CostModel cost;
  cost.rate(OpKind::product, DType::bfloat16) = {8, 1e9};
  cost.rate(OpKind::product, DType::float32) = {2, 1e9};
  Op op;
  op.name = "aten::addmm.dtype_out";
  op.flops = 16;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::bfloat16})
    op.arguments.push_back({Argument::Kind::tensor, false, {{0, dtype, 0, {4, 4}, {4, 1}}}});
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 2);
  op.name = "aten::mm";  // whose first operand is a factor
  EXPECT_DOUBLE_EQ(seconds_of(cost, op), 8);
}

}  // namespace
}  // namespace plimsoll
