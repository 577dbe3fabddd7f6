// Tests the start of copies and the waits of ops for them: small schedules computed by hand, and random ones compared
// with a link that is simulated copy by copy.
#include "plan/passes/segment_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// Every op takes one second. The link to the host copies one byte a second, the link to the disk half a byte a second.
CostModel one_byte_a_second() {
  CostModel cost;
  cost.measured_seconds = [](const Op&) { return std::optional<double>(1); };
  cost.host_link = 1;
  cost.disk_link = 0.5;
  return cost;
}

std::vector<int32_t> starts_of(const auto& copies) {
  std::vector<int32_t> starts;
  for (const auto& copy : copies) starts.push_back(copy.start);
  return starts;
}

std::vector<int32_t> waits_of(const std::vector<CopyOut>& copies) {
  std::vector<int32_t> waits;
  for (const CopyOut& copy : copies) waits.push_back(copy.wait);
  return waits;
}

// Twenty ops, of which the segment has all or those from `begin` on.
class CopySchedules : public ::testing::Test {
 protected:
  static constexpr int32_t kOps = 20;
  static constexpr int64_t kNoLimit = 1 << 20;
  CopySchedules() { trace_.ops.resize(kOps); }
  CopySchedule schedule(int64_t limit, int32_t begin = 0) const {
    return {cost_, trace_, Segment{SegmentKind::micro, begin, kOps}, live_, limit};
  }
  CostModel cost_ = one_byte_a_second();
  Trace trace_;
  std::vector<int64_t> live_ = std::vector<int64_t>(kOps, 0);
};

TEST_F(CopySchedules, CopiesOutShareTheLinkInTheOrderInWhichTheyAreReady) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyOut> outs{{.bytes = 3, .ready = 2, .last = 1, .latest = kOps},
                            {.bytes = 2, .ready = 1, .last = 0, .latest = kOps},
                            {.bytes = 4, .ready = 2, .last = 1, .latest = kOps}};
  copies.place(outs);
  EXPECT_THAT(starts_of(outs), ElementsAre(2, 1, 2));
  // The link copies the second in [1, 3), the first in [3, 6), the third in [6, 10). Op k begins at second k.
  EXPECT_THAT(waits_of(outs), ElementsAre(6, 3, 10));
  // At op 2 all three are live without any op that needs them.
  EXPECT_EQ(copies.peak(), 3 + 2 + 4);
}

TEST_F(CopySchedules, ACopyOutKeepsItsBytesUntilTheLastOpThatNeedsThem) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyOut> outs{{.bytes = 2, .ready = 1, .last = 7, .latest = kOps}};
  copies.place(outs);
  EXPECT_EQ(outs[0].start, 1);
  EXPECT_EQ(outs[0].wait, 8);  // done at second 3
  EXPECT_EQ(copies.peak(), 0);
}

TEST_F(CopySchedules, OpsWaitForACopyOutWhenBytesAreShortAndLaterCopiesSeeTheDelay) {
  live_.assign(kOps, 5);
  CopySchedule copies = schedule(7);
  std::vector<CopyOut> outs{{.bytes = 4, .ready = 1, .last = 1, .latest = kOps},
                            {.bytes = 2, .ready = 3, .last = 2, .latest = kOps}};
  copies.place(outs);
  EXPECT_THAT(starts_of(outs), ElementsAre(1, 3));
  // The first copy takes seconds [1, 5). Op 2 has no room for its 4 bytes next to 5 others: the op begins at second 5.
  // Op 3 begins at second 6, and the second copy takes [6, 8). Its 2 bytes just fit, and op 5 begins at second 8.
  EXPECT_THAT(waits_of(outs), ElementsAre(2, 5));
  EXPECT_EQ(copies.peak(), 7);
}

TEST_F(CopySchedules, OpsWaitAtTheLatestOpForACopyOutAndForThoseBeforeItOnTheLink) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyOut> outs{{.bytes = 3, .ready = 0, .last = 5, .latest = 8},
                            {.bytes = 3, .ready = 0, .last = 0, .latest = 2},
                            {.bytes = 1, .ready = 3, .last = 2, .latest = kOps}};
  copies.place(outs);
  // The link copies the first in [0, 3), the second in [3, 6). Op 2 waits for the second, and begins at second 6.
  // The first is done by then, but op 5 still needs its bytes. Op 3 begins at second 7, and the third takes [7, 8).
  EXPECT_THAT(waits_of(outs), ElementsAre(6, 2, 4));
}

TEST_F(CopySchedules, TheEndOfTheSegmentWaitsForCopiesOut) {
  CopySchedule copies = schedule(kNoLimit, 15);
  std::vector<CopyOut> outs{{.bytes = 50, .ready = 17, .last = 16, .latest = kOps},
                            {.bytes = 1, .ready = kOps, .last = kOps - 1, .latest = kOps}};
  copies.place(outs);
  EXPECT_THAT(starts_of(outs), ElementsAre(17, kOps));
  EXPECT_THAT(waits_of(outs), ElementsAre(kOps, kOps));
}

TEST_F(CopySchedules, ACopyToDiskTakesTheTimeOfTheDisksLink) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyOut> outs{{.bytes = 3, .ready = 1, .last = 0, .latest = kOps, .to = Memory::disk}};
  copies.place(outs);
  EXPECT_EQ(outs[0].wait, 1 + 6);
  std::vector<CopyIn> ins{{.bytes = 3, .need = 15, .from = Memory::disk}};
  copies.place(ins);
  EXPECT_EQ(ins[0].start, 15 - 6);
}

TEST_F(CopySchedules, CopiesInShareTheLinkFromTheOpsThatNeedThemBackwards) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyIn> ins{{.bytes = 3, .need = 9}, {.bytes = 2, .need = 9}, {.bytes = 3, .need = 8}};
  copies.place(ins);
  // The link copies the first in [6, 9), the second in [4, 6), the third in [1, 4): one at a time.
  EXPECT_THAT(starts_of(ins), ElementsAre(6, 4, 1));
  // Ops 6 and 7 have all three.
  EXPECT_EQ(copies.peak(), 3 + 2 + 3);
}

TEST_F(CopySchedules, CopiesInLeaveTheLinkIdleWhenNoOpNeedsThemSoon) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyIn> ins{{.bytes = 2, .need = 5}, {.bytes = 3, .need = 18}};
  copies.place(ins);
  EXPECT_THAT(starts_of(ins), ElementsAre(3, 15));
  EXPECT_EQ(copies.peak(), 3);
}

TEST_F(CopySchedules, ACopyInThatTheSegmentIsTooShortForStartsWithTheSegment) {
  CopySchedule copies = schedule(kNoLimit, 15);
  std::vector<CopyIn> ins{{.bytes = 3, .earliest = 15, .need = 17}, {.bytes = 1, .earliest = 15, .need = 19}};
  copies.place(ins);
  // Op 17 begins two seconds after the segment. The second copy takes [18, 19).
  EXPECT_THAT(starts_of(ins), ElementsAre(15, 18));
}

TEST_F(CopySchedules, TheCopyInThatIsNeededFirstHasTheBytesThatAreLeft) {
  CopySchedule copies = schedule(5);
  std::vector<CopyIn> ins{{.bytes = 3, .need = 9}, {.bytes = 3, .need = 8}};
  copies.place(ins);
  // Without a limit they start before ops 6 and 3. The limit has room for one copy's bytes in ops 3 to 7.
  EXPECT_THAT(starts_of(ins), ElementsAre(8, 3));
  EXPECT_EQ(copies.peak(), 3);
}

TEST_F(CopySchedules, CopiesInThatFitOnlyOneAtATimeFollowEachOther) {
  CopySchedule copies = schedule(40);
  std::vector<CopyIn> ins{{.bytes = 40, .need = 6}, {.bytes = 40, .need = 4}, {.bytes = 40, .need = 2}};
  copies.place(ins);
  EXPECT_THAT(starts_of(ins), ElementsAre(4, 2, 0));
  EXPECT_EQ(copies.peak(), 40);
}

TEST_F(CopySchedules, ACopyInWithoutRoomStartsBeforeTheOpThatNeedsIt) {
  live_.assign(kOps, 5);
  CopySchedule copies = schedule(8);
  std::vector<CopyIn> ins{{.bytes = 4, .need = 8}};
  copies.place(ins);
  EXPECT_EQ(ins[0].start, 8);
  EXPECT_EQ(copies.peak(), 5);
}

TEST_F(CopySchedules, ACopyInStartsAfterTheLastOpWithoutRoomForItsBytes) {
  live_[5] = 7;
  CopySchedule copies = schedule(10);
  std::vector<CopyIn> ins{{.bytes = 4, .need = 8}};
  copies.place(ins);
  EXPECT_EQ(ins[0].start, 6);  // second 4 would be early enough
  EXPECT_EQ(copies.peak(), 7);
}

TEST_F(CopySchedules, ACopyInStartsNoEarlierThanItMayNorThanTheOnesBeforeIt) {
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyIn> ins{{.bytes = 3, .earliest = 0, .need = 9},
                          {.bytes = 3, .earliest = 7, .need = 8},
                          {.bytes = 1, .earliest = 15, .need = 14}};
  copies.place(ins);
  // The second may start before op 7. The first needs second 6 to be in time, but may not overtake the second.
  EXPECT_THAT(starts_of(ins), ElementsAre(7, 7, 14));
}

TEST_F(CopySchedules, CopiesInSeeTheBytesOfCopiesOut) {
  CopySchedule copies = schedule(6);
  std::vector<CopyOut> outs{{.bytes = 4, .ready = 1, .last = 0, .latest = kOps}};
  copies.place(outs);
  EXPECT_EQ(outs[0].wait, 5);  // live in ops 1 to 4
  std::vector<CopyIn> ins{{.bytes = 5, .need = 8}};
  copies.place(ins);
  EXPECT_EQ(ins[0].start, 5);  // second 3 would be early enough
  EXPECT_EQ(copies.peak(), 5);
}

TEST_F(CopySchedules, CopiesOverlapOpsOfDifferentLengths) {
  cost_.measured_seconds = [](const Op& op) { return std::optional<double>(op.flops); };
  for (Op& op : trace_.ops) op.flops = 1;
  trace_.ops[3].flops = 10;
  CopySchedule copies = schedule(kNoLimit);
  // Op 3 takes seconds [3, 13). The copy out takes [2, 11).
  std::vector<CopyOut> outs{{.bytes = 9, .ready = 2, .last = 1, .latest = kOps}};
  copies.place(outs);
  EXPECT_EQ(outs[0].wait, 4);
  // Op 5 begins at second 14, the copy in at second 5 at the latest: it starts before op 3.
  std::vector<CopyIn> ins{{.bytes = 9, .need = 5}};
  copies.place(ins);
  EXPECT_EQ(ins[0].start, 3);
}

TEST_F(CopySchedules, CopiesThatDoNotOverlapOpsAreDoneAtOnce) {
  cost_.copies_overlap = false;
  CopySchedule copies = schedule(kNoLimit);
  std::vector<CopyOut> outs{{.bytes = 9, .ready = 3, .last = 2, .latest = kOps},
                            {.bytes = 9, .ready = 3, .last = 4, .latest = kOps}};
  copies.place(outs);
  EXPECT_THAT(starts_of(outs), ElementsAre(3, 3));
  EXPECT_THAT(waits_of(outs), ElementsAre(3, 5));
  std::vector<CopyIn> ins{{.bytes = 9, .need = 9}, {.bytes = 9, .need = 8}};
  copies.place(ins);
  EXPECT_THAT(starts_of(ins), ElementsAre(9, 8));
  EXPECT_EQ(copies.peak(), 0);
}

// Returns true if every copy arrives before its op begins, and the link makes one copy at a time in the order of the
// ops that need them.
bool all_arrive(const std::vector<CopyIn>& copies, const std::vector<int32_t>& order) {
  double link_free = 0;
  for (int32_t index : order) {
    const CopyIn& copy = copies[index];
    link_free = std::max<double>(link_free, copy.start) + static_cast<double>(copy.bytes);
    if (link_free > copy.need) return false;
  }
  return true;
}

// Without a limit every copy in is in time, and none could start one op later.
TEST(RandomCopySchedules, CopiesInStartAsLateAsTheyCanAndArriveInTime) {
  std::mt19937 random(3);
  for (int round = 0; round < testing::rounds(300); ++round) {
    SCOPED_TRACE(round);
    constexpr int32_t kOps = 200;
    Trace trace;
    trace.ops.resize(kOps);
    const CostModel cost = one_byte_a_second();
    std::vector<CopyIn> ins(1 + random() % 8);
    // Together they take 64 seconds at most.
    for (CopyIn& copy : ins) {
      copy.bytes = 1 + random() % 8;
      copy.need = 64 + static_cast<int32_t>(random() % (round % 2 ? 10 : kOps - 64));
    }
    CopySchedule schedule(cost, trace, {SegmentKind::micro, 0, kOps}, std::vector<int64_t>(kOps, 0), 1 << 20);
    schedule.place(ins);
    std::vector<int32_t> order(ins.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return std::pair(ins[a].need, ins[a].start) < std::pair(ins[b].need, ins[b].start);
    });
    EXPECT_TRUE(
        std::is_sorted(order.begin(), order.end(), [&](int32_t a, int32_t b) { return ins[a].start < ins[b].start; }));
    ASSERT_TRUE(all_arrive(ins, order));
    for (CopyIn& copy : ins) {
      ++copy.start;
      EXPECT_FALSE(all_arrive(ins, order));
      --copy.start;
    }
  }
}

// Copies never raise live bytes above the limit if ops alone are below it, and peak() is their largest sum.
TEST(RandomCopySchedules, LiveBytesStayWithinTheLimit) {
  std::mt19937 random(4);
  int short_of_bytes = 0;
  for (int round = 0; round < testing::rounds(300); ++round) {
    SCOPED_TRACE(round);
    const int32_t begin = static_cast<int32_t>(random() % 5), end = begin + 10 + static_cast<int32_t>(random() % 30);
    Trace trace;
    trace.ops.resize(end + 3);
    const CostModel cost = one_byte_a_second();
    std::vector<int64_t> live(trace.ops.size());
    for (int64_t& bytes : live) bytes = random() % 12;
    const int64_t limit = 8 + random() % 16;
    const auto op_in = [&](int32_t low, int32_t high) { return low + static_cast<int32_t>(random() % (high - low)); };
    std::vector<CopyOut> outs(random() % 8);
    for (CopyOut& copy : outs) {
      copy.bytes = 1 + random() % 8;
      copy.ready = op_in(begin, end);
      copy.last = op_in(copy.ready - (copy.ready > begin), end);
      copy.latest = op_in(copy.last + 1, end + 1);
    }
    std::vector<CopyIn> ins(random() % 8);
    for (CopyIn& copy : ins) {
      copy.bytes = 1 + random() % 8;
      copy.earliest = op_in(begin, end);
      copy.need = op_in(copy.earliest, end);
    }
    CopySchedule schedule(cost, trace, {SegmentKind::micro, begin, end}, live, limit);
    schedule.place(outs);
    schedule.place(ins);
    std::vector<int64_t> sums = live;
    for (const CopyOut& copy : outs) {
      EXPECT_EQ(copy.start, copy.ready);
      EXPECT_GE(copy.wait, copy.start);
      EXPECT_GT(copy.wait, copy.last);
      EXPECT_LE(copy.wait, copy.latest);
      for (int32_t op = copy.last + 1; op < copy.wait; ++op) sums[op] += copy.bytes;
    }
    for (const CopyIn& copy : ins) {
      EXPECT_GE(copy.start, copy.earliest);
      EXPECT_LE(copy.start, copy.need);
      for (int32_t op = copy.start; op < copy.need; ++op) sums[op] += copy.bytes;
    }
    for (int32_t op = begin; op < end; ++op) {
      EXPECT_LE(sums[op], std::max(limit, live[op])) << op;
      short_of_bytes += sums[op] == limit;
    }
    EXPECT_EQ(schedule.peak(), *std::max_element(sums.begin() + begin, sums.begin() + end));
  }
  EXPECT_GT(short_of_bytes, testing::rounds(100));
}

}  // namespace
}  // namespace plimsoll
