#include "base/measurement.h"

#include <gtest/gtest.h>

#include "stated_machine.h"

namespace plimsoll {
namespace {

struct FakeClock : MeasuringMachine {
  double now() override { return clock; }
  double clock = 0;
};

TEST(MeasuringMachine, TimesWorkByItsClock) {
  FakeClock machine;
  EXPECT_DOUBLE_EQ(machine.time({"work"}, [&] { machine.clock += 3; }), 3);
  EXPECT_EQ(machine.time({"work"}, [] {}), 1e-9);  // a rate is computed from it
}

TEST(MeasuringMachine, IsReplacedForAScope) {
  MeasuringMachine& before = measuring_machine();
  FakeClock machine;
  {
    const MeasuringMachineScope scope(machine);
    EXPECT_EQ(&measuring_machine(), &machine);
    MeasureAllowance allowance({.bytes = 0, .seconds = 10});
    {
      const MeasureAllowance::Charge charge(&allowance);
      machine.clock += 4;
    }
    EXPECT_DOUBLE_EQ(allowance.seconds_left(), 6);
  }
  EXPECT_EQ(&measuring_machine(), &before);
}

// Every test program has stated times, so that no result depends on the machine or on its load.
TEST(StatedMachine, IsTheMachineOfTests) {
  MeasuringMachine& machine = measuring_machine();
  const double begin = machine.now();
  EXPECT_EQ(machine.now(), begin);
  EXPECT_DOUBLE_EQ(machine.time({.name = "matmul", .flops = 50e9}, [] {}), 1 + StatedMachine::kOverhead);
  EXPECT_DOUBLE_EQ(machine.time({.name = "copy", .flops = 1, .bytes = 20e9}, [] {}), 2 + StatedMachine::kOverhead);
  EXPECT_NEAR(machine.now() - begin, 3, 1e-3);
  machine.wait(5);
  EXPECT_NEAR(machine.now() - begin, 8, 1e-3);
}

TEST(OtherWork, IsSaidByThisSystem) {
  const auto before = other_work(), after = other_work();
  ASSERT_TRUE(before && after);
  EXPECT_GE(before->processors, 1);
  EXPECT_GT(before->seconds, 0);
  // Own time is counted to the microsecond, that of the machine in ticks of 1/100 s for each processor.
  EXPECT_GE(after->seconds, before->seconds - 0.02 * before->processors);
}

TEST(OtherWork, SharesOnlyTheProcessorsThatThreadsNeed) {
  const OtherWork before{.seconds = 100, .processors = 4}, after{.seconds = 106, .processors = 4};
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 4), 3);  // three are busy, and four are needed
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 2), 1);
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 1), 0);
  EXPECT_DOUBLE_EQ(shared_processors(after, before, 2, 4), 0);
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 0, 4), 0);
}

}  // namespace
}  // namespace plimsoll
