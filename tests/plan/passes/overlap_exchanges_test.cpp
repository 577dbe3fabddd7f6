#include "plan/passes/passes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "plan/trace_text.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::TraceText;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Each op takes a second, and an exchange one more for each 64 bytes.
CostModel seconds_model(double peer_link = 64) {
  CostModel cost;
  cost.source = "catalogue";
  cost.overhead_seconds = 1;
  cost.peer_link = peer_link;
  cost.exchanges_overlap = true;
  return cost;
}

// Lines of TraceText. Ops that write a buffer "sum…" are reduce-scatters, those that write "whole…" gathers; each sends
// 128 bytes.
Trace exchanging(const std::string& text) {
  Trace trace = TraceText(text).trace;
  for (Op& op : trace.ops) {
    const bool reduces = op.name.starts_with("make_sum"), gathers = op.name.starts_with("make_whole");
    if (!reduces && !gathers) continue;
    op.name = reduces ? "plimsoll::reduce_scatter_" : "plimsoll::gather_";
    op.link_bytes = 128;
  }
  return trace;
}

// Returns "start sum", "wait sum", or "sum" if the exchange does not overlap with other ops; for other ops the buffer
// that they write.
std::vector<std::string> listed(const Trace& trace) {
  std::vector<std::string> lines;
  for (const Op& op : trace.ops) {
    std::string line = op.exchange == CopyStage::start ? "start " : op.exchange == CopyStage::wait ? "wait " : "";
    const View& first = op.arguments.empty() ? op.results[0] : op.arguments[0].views[0];
    lines.push_back(line + trace.buffers[op.results.empty() ? first.buffer : op.results[0].buffer].label);
  }
  return lines;
}

int64_t peak_of(const Trace& trace) {
  return std::ranges::max(transient_bytes_by_op(trace, lifetimes_of(trace)));
}

const std::string kBackward =
    "buffer x 64 persistent\nbuffer p1 64 state\nbuffer p2 64 state\n"
    "micro\n"
    "b - g2 = x\nb - sum2 <- g2\nu - p2 <- sum2\n"
    "b - g1 = x\nb - y = g1\nb - z = y\nb - sum1 <- g1\nu - p1 <- sum1 z\n";

TEST(OverlapExchanges, UpdatesWaitForSumsBehindTheOpsOfBackward) {
  EXPECT_THAT(listed(overlap_exchanges(exchanging(kBackward), seconds_model(128), kNoLimit)),
              ElementsAre("g2", "start sum2", "g1", "y", "z", "wait sum2", "p2", "sum1", "p1"));
}

TEST(OverlapExchanges, AreMadeOneAtATime) {
  // The first sum takes longer than all of backward.
  EXPECT_THAT(listed(overlap_exchanges(exchanging(kBackward), seconds_model(1), kNoLimit)),
              ElementsAre("g2", "start sum2", "g1", "y", "z", "start sum1", "wait sum2", "p2", "wait sum1", "p1"));
}

TEST(OverlapExchanges, NothingIsHeldLongerThanTheLimitAllows) {
  const Trace before = exchanging(kBackward);
  const Trace after = overlap_exchanges(before, seconds_model(1), peak_of(before));
  EXPECT_EQ(peak_of(after), peak_of(before));
  EXPECT_GT(peak_of(overlap_exchanges(before, seconds_model(1), kNoLimit)), peak_of(before));
  // Below the live bytes without overlap: unchanged.
  EXPECT_EQ(listed(overlap_exchanges(before, seconds_model(1), 0)), listed(before));
}

const std::string kForward =
    "buffer x 64 persistent\nbuffer slice2 64 state\n"
    "micro\n"
    "f - a = x\nf - b = a\nf - c = b\nf - d = c\nf - e = d\n"
    "f - whole2 <- slice2\nf - f = e whole2\n";

TEST(OverlapExchanges, GathersAreStartedAsEarlyAsTheyTake) {
  EXPECT_THAT(listed(overlap_exchanges(exchanging(kForward), seconds_model(), kNoLimit)),
              ElementsAre("a", "b", "start whole2", "c", "d", "e", "wait whole2", "f"));
}

TEST(OverlapExchanges, AGatherIsNotStartedBeforeItsSliceIsWritten) {
  const std::string text =
      "buffer x 64 persistent\nbuffer slice 64 state\n"
      "micro\n"
      "f - a = x\nf - b = a\nu - slice <- b\nf - c = b\nf - whole <- slice\nf - d = c whole\n";
  EXPECT_THAT(listed(overlap_exchanges(exchanging(text), seconds_model(), kNoLimit)),
              ElementsAre("a", "b", "slice", "start whole", "c", "wait whole", "d"));
}

// Slices in host memory: the copy writes to the slice until it is waited for.
TEST(OverlapExchanges, AGatherIsNotStartedBeforeTheCopyOfItsSliceIsDone) {
  Trace before = exchanging(
      "buffer x 64 persistent\nbuffer away 64 state\nbuffer slice 64\n"
      "micro\n"
      "f - a = x\nf - slice <- away\nf - b = a\nf - c = b\nf - h <- slice away\nf - whole <- slice\nf - d = c whole\n");
  before.ops[1].copy = CopyStage::start;
  before.ops[4].copy = CopyStage::wait;
  before.ops[4].arguments.erase(before.ops[4].arguments.begin());
  const std::vector<std::string> lines = listed(overlap_exchanges(before, seconds_model(), kNoLimit));
  const auto wait = std::ranges::find(lines, "slice", [&](const std::string& line) { return line; });
  ASSERT_NE(wait, lines.end());
  const auto last_slice = std::find(lines.rbegin(), lines.rend(), "slice").base();
  EXPECT_GE(std::ranges::find_if(lines, [](const std::string& line) { return line.ends_with("whole"); }), last_slice);
}

// Measurements differ from rank to rank; the order of exchanges must not.
TEST(OverlapExchanges, RanksWithOtherMeasurementsPlanAlike) {
  CostModel fast = seconds_model(), slow = seconds_model();
  for (const char* source : {"measured", "measured, ops timed", "typical", "typical, ops timed"}) {
    fast.source = slow.source = source;
    slow.overhead_seconds = 100;
    slow.measured_seconds = [](const Op&) { return 7.0; };
    const Trace before = exchanging(kForward);
    EXPECT_EQ(listed(overlap_exchanges(before, cost_of_all_ranks(fast), kNoLimit)),
              listed(overlap_exchanges(before, cost_of_all_ranks(slow), kNoLimit)));
  }
}

TEST(OverlapExchanges, AGatherWaitsForRoom) {
  Trace before = exchanging(kForward);
  const Trace after = overlap_exchanges(before, seconds_model(), peak_of(before));
  EXPECT_EQ(peak_of(after), peak_of(before));
}

TEST(OverlapExchanges, TheirScratchIsOneBuffer) {
  Trace before = exchanging(kBackward);
  for (Op& op : before.ops)
    if (op.link_bytes > 0) op.workspace_bytes = 256;
  const Trace after = overlap_exchanges(before, seconds_model(1), kNoLimit);
  ASSERT_EQ(after.buffers.size(), before.buffers.size() + 1);
  EXPECT_EQ(after.buffers.back().bytes, 256);
  const auto landing = static_cast<BufferId>(after.buffers.size() - 1);
  int starts = 0;
  for (const Op& op : after.ops) {
    if (op.exchange == CopyStage::none) continue;
    EXPECT_EQ(op.workspace_bytes, 0);
    EXPECT_EQ(op.arguments.back().views[0].buffer, landing);
    EXPECT_EQ(op.arguments.back().written, op.exchange == CopyStage::start);
    starts += op.exchange == CopyStage::start;
  }
  EXPECT_EQ(starts, 2);
}

// Returns the final values of the persistent buffers. An op's results depend on all of its operands. The result of an
// exchange that overlaps with other ops appears at its wait, computed from its operands at its start.
std::map<std::string, uint64_t> outcome(const Trace& trace) {
  std::vector<uint64_t> held(trace.buffers.size(), 1);
  std::map<BufferId, uint64_t> under_way;
  const auto mix = [](uint64_t a, uint64_t b) {
    return (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6))) * 0xbf58476d1ce4e5b9ull;
  };
  for (const Op& op : trace.ops) {
    if (op.exchange == CopyStage::wait) {
      const BufferId target = op.arguments[0].views[0].buffer;
      held[target] = under_way.at(target);
      under_way.erase(target);
      continue;
    }
    uint64_t value = std::hash<std::string>()(op.name);
    for_each_view(op, [&](const View& view, bool) {
      EXPECT_FALSE(under_way.contains(view.buffer)) << trace.buffers[view.buffer].label << " is used too early";
      value = mix(value, held[view.buffer]);
    });
    if (op.exchange == CopyStage::start) {
      under_way[op.arguments[0].views[0].buffer] = value;
      continue;
    }
    for_each_view(op, [&](const View& view, bool written) {
      if (written) held[view.buffer] = mix(value, static_cast<uint64_t>(view.buffer));
    });
    if (op.link_bytes > 0) held[op.arguments[0].views[0].buffer] = value;
  }
  EXPECT_TRUE(under_way.empty());
  std::map<std::string, uint64_t> state;
  for (size_t b = 0; b < trace.buffers.size(); ++b)
    if (trace.buffers[b].persistent) state[trace.buffers[b].label] = held[b];
  return state;
}

// Layers with gathered or whole weights, with sums that are updated in backward or at the end.
std::string random_step(std::mt19937& random) {
  const auto chance = [&](int of) { return static_cast<int>(random() % static_cast<unsigned>(of)); };
  const int layers = 1 + chance(6);
  std::string buffers = "buffer x 64 persistent\n", forward, backward, update;
  std::vector<bool> gathered, kept;
  for (int l = 0; l < layers; ++l) {
    gathered.push_back(chance(2) == 0);
    kept.push_back(chance(2) == 0);
    buffers += fmt::format("buffer slice{0} {1} state\nbuffer h{0} {2}\nbuffer whole{0} {1}\nbuffer again{0} {1}\n", l,
                           64 * (1 + chance(8)), 64 * (1 + chance(8)));
    if (gathered[l]) forward += fmt::format("f - whole{0} <- slice{0}\n", l);
    const std::string weight = fmt::format("{}{}", gathered[l] ? "whole" : "slice", l);
    forward += fmt::format("f - h{} = {} {}\n", l, l == 0 ? std::string("x") : fmt::format("h{}", l - 1), weight);
    for (int i = chance(3); i-- > 0;) forward += fmt::format("f - h{0} <- h{0}\n", l);
  }
  backward += fmt::format("b - d{} = h{}\n", layers, layers - 1);
  for (int l = layers; l-- > 0;) {
    std::string weight = fmt::format("{}{}", gathered[l] ? "whole" : "slice", l);
    if (gathered[l] && !kept[l]) {
      weight = fmt::format("whole_again{}", l);
      backward += fmt::format("b - {} <- slice{}\n", weight, l);
    }
    backward += fmt::format("b - g{0} = d{1} h{0}\nb - d{0} = d{1} {2}\n", l, l + 1, weight);
    backward += fmt::format("b - sum{0} <- g{0}\n", l);
    const std::string own = fmt::format("u - slice{0} <- sum{0}\n", l);
    if (chance(2) == 0)
      backward += own;
    else
      update += own;
  }
  return buffers + "micro\n" + forward + backward + update;
}

TEST(OverlapExchanges, RandomStepsGiveWhatTheyGave) {
  int overlapped = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::string text = random_step(random);
    SCOPED_TRACE(text);
    Trace before = exchanging(text);
    for (Op& op : before.ops)
      if (op.link_bytes > 0) op.link_bytes = 64 * (1 + static_cast<int64_t>(random() % 20));
    const int64_t peak = peak_of(before),
                  limit = random() % 3 == 0 ? peak : peak + static_cast<int64_t>(random() % 2048);
    const Trace after = overlap_exchanges(before, seconds_model(16 << (random() % 6)), limit);
    EXPECT_EQ(outcome(after), outcome(before));
    EXPECT_LE(peak_of(after), std::max(limit, peak));
    EXPECT_LE(segment_seconds(seconds_model(), after, SegmentKind::micro),
              segment_seconds(seconds_model(), before, SegmentKind::micro) + 1e-9);
    overlapped += std::ranges::count(after.ops, CopyStage::start, &Op::exchange);
    PlanOptions options;
    options.cost = seconds_model();
    options.gradient_checkpointing = Choice::off;
    const Plan alone = [&] {
      PlanOptions in_turn = options;
      in_turn.cost.exchanges_overlap = false;
      return make_plan(before, in_turn);
    }();
    options.budget.device = alone.peak_bytes + static_cast<int64_t>(random() % 2) * 256;
    const Plan plan = make_plan(before, options);  // the validator has checked it
    EXPECT_TRUE(plan.fits);
    EXPECT_LE(plan.time.micro, alone.time.micro + 1e-9);
  }
  EXPECT_GT(overlapped, 300);
}

}  // namespace
}  // namespace plimsoll
