// Tests predicted times of exchanges between ranks, computed by hand.
#include <gtest/gtest.h>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Links carry 10 bytes a second after 2 seconds; memory 100 bytes a second; each op takes half a second more.
CostModel linked() {
  CostModel cost;
  cost.peer_link = 10;
  cost.peer_latency = 2;
  cost.overhead_seconds = 0.5;
  for (auto& kind : cost.rates) kind.fill({0, 100});
  return cost;
}

Op exchange(int64_t link_bytes, int64_t bytes_moved = 0) {
  Op op;
  op.name = "plimsoll::reduce_scatter_";
  op.link_bytes = link_bytes;
  op.bytes_moved = bytes_moved;
  return op;
}

// A trace of segments with one exchange each.
Trace segments(const std::vector<std::pair<SegmentKind, int64_t>>& link_bytes) {
  Trace trace;
  for (const auto& [kind, bytes] : link_bytes) {
    trace.ops.push_back(exchange(bytes));
    const auto end = static_cast<int32_t>(trace.ops.size());
    trace.segments.push_back({kind, end - 1, end});
  }
  return trace;
}

TEST(ExchangeCost, IsLatencyAndBytesOverTheLink) {
  EXPECT_DOUBLE_EQ(exchange_seconds(linked(), 30), 5);
  EXPECT_DOUBLE_EQ(exchange_seconds(linked(), 0), 2);
  EXPECT_DOUBLE_EQ(seconds_of(linked(), exchange(30)), 5.5);
}

TEST(ExchangeCost, IsTheTrafficInMemoryIfThatTakesLonger) {
  EXPECT_DOUBLE_EQ(seconds_of(linked(), exchange(30, 400)), 5.5);
  EXPECT_DOUBLE_EQ(seconds_of(linked(), exchange(30, 600)), 6.5);
}

TEST(ExchangeCost, WithoutALinkIsTheTrafficInMemory) {
  CostModel cost = linked();
  cost.peer_link = 0;
  EXPECT_EQ(exchange_seconds(cost, 30), 0);
  EXPECT_DOUBLE_EQ(seconds_of(cost, exchange(30, 400)), 4.5);
}

TEST(ExchangeCost, IgnoresATimeThatWasMeasuredAlone) {
  CostModel cost = linked();
  cost.measured_seconds = [](const Op&) { return std::optional<double>(1); };
  EXPECT_DOUBLE_EQ(seconds_of(cost, exchange(30)), 5.5);
  EXPECT_DOUBLE_EQ(seconds_of(cost, exchange(0)), 1);  // no exchange
}

TEST(ExchangeCost, OfAStepCountsEachSegmentAsOftenAsItRuns) {
  const Trace trace = segments({{SegmentKind::norms, 1000},
                                {SegmentKind::micro, 1},
                                {SegmentKind::accumulate, 10},
                                {SegmentKind::remainder, 5},
                                {SegmentKind::update, 100}});
  const auto bytes = [&](int64_t micro_batches, bool ragged = false) {
    return exchanges_of_step(linked(), trace, micro_batches, ragged).bytes;
  };
  EXPECT_EQ(bytes(1), 1101);
  EXPECT_EQ(bytes(2), 111);
  EXPECT_EQ(bytes(4), 131);
  EXPECT_EQ(bytes(4, true), 126);
  const StepExchanges step = exchanges_of_step(linked(), trace, 4);
  EXPECT_EQ(step.count, 5);
  EXPECT_DOUBLE_EQ(step.seconds, 5 * 2.5 + 13.1);
}

TEST(ExchangeCost, OfAStepWithUpdatesInBackwardCountsLastAndFinish) {
  const Trace trace = segments({{SegmentKind::micro, 1},
                                {SegmentKind::accumulate, 10},
                                {SegmentKind::last, 7},
                                {SegmentKind::update, 1000},
                                {SegmentKind::finish, 100}});
  EXPECT_EQ(exchanges_of_step(linked(), trace, 3).bytes, 118);
}

TEST(ExchangeCost, OfAStepIsThatOfItsSegments) {
  const Trace trace = segments({{SegmentKind::micro, 40}, {SegmentKind::accumulate, 30}, {SegmentKind::update, 20}});
  double seconds = 0;
  using enum SegmentKind;
  for (const SegmentKind kind : {micro, accumulate, accumulate, update})
    seconds += segment_seconds(linked(), trace, kind);
  EXPECT_DOUBLE_EQ(exchanges_of_step(linked(), trace, 3).seconds, seconds);
}

Op on_target(Op op, CopyStage stage, BufferId target) {
  op.exchange = stage;
  op.arguments = {{Argument::Kind::tensor, stage == CopyStage::start, {View{target, DType::uint8, 0, {1}, {1}}}}};
  if (stage == CopyStage::wait) op.link_bytes = 0;
  return op;
}

// By hand: start 0.5; two ops of 1.5 s each (0.5 + 100 bytes). The exchange takes 5.5 s and overlaps with them. A
// second exchange that does not overlap with ops comes after it.
TEST(ExchangeCost, OpsBesideAnExchangeHideItsTime) {
  Trace trace;
  Op work;
  work.name = "aten::relu";
  work.bytes_moved = 100;
  trace.buffers.resize(2);
  trace.ops = {on_target(exchange(30), CopyStage::start, 0), work, work, on_target(exchange(30), CopyStage::wait, 0)};
  trace.segments = {{SegmentKind::micro, 0, 4}};
  EXPECT_DOUBLE_EQ(segment_seconds(linked(), trace, SegmentKind::micro), 6);
  StepExchanges exchanges = exchanges_of_step(linked(), trace, 1);
  EXPECT_DOUBLE_EQ(exchanges.seconds, 5.5);
  EXPECT_DOUBLE_EQ(exchanges.waited, 2.5);

  trace.ops.insert(trace.ops.begin() + 3, on_target(exchange(10), CopyStage::none, 1));
  trace.segments[0].end = 5;
  EXPECT_DOUBLE_EQ(segment_seconds(linked(), trace, SegmentKind::micro), 6 + 3.5);
  exchanges = exchanges_of_step(linked(), trace, 1);
  EXPECT_DOUBLE_EQ(exchanges.seconds, 9);
  EXPECT_DOUBLE_EQ(exchanges.waited, 6);
}

}  // namespace
}  // namespace plimsoll
