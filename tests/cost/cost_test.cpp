// Tests predicted times of ops and of copies that overlap them, computed by hand.
#include "cost/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plimsoll
