// Tests that rates of a busy machine are not stored: later plans would predict from them.
#include "run/machine_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/machine.h"
#include "stated_machine.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A machine on which other programs keep some of its two processors busy.
class BusyMachine final : public StatedMachine {
 public:
  explicit BusyMachine(double busy) : busy_(busy) {}
  std::optional<OtherWork> other_work() override { return OtherWork{.seconds = busy_ * now(), .processors = 2}; }

 private:
  double busy_;
};

TEST(MachineCost, RatesOfABusyMachineAreStoredOnlyIfAskedFor) {
  {
    BusyMachine busy(2);
    const MeasuringMachineScope scope(busy);
    const MachineReport report = inspect_machine(2);
    EXPECT_NEAR(report.shared_processors, 2, 1e-6);
    EXPECT_FALSE(report.stored);
    EXPECT_THAT(report.cost.source, HasSubstr("next to other programs, 2.0 processors busy"));
  }
  {
    BusyMachine quiet(0.1);
    const MeasuringMachineScope scope(quiet);
    const MachineReport report = inspect_machine(2);
    EXPECT_TRUE(report.measured_now) << "the first rates were not stored";
    EXPECT_TRUE(report.stored);
    EXPECT_EQ(report.cost.source, "measured");
    EXPECT_FALSE(inspect_machine(2).measured_now);
  }
  BusyMachine busy(1.5);
  const MeasuringMachineScope scope(busy);
  EXPECT_TRUE(inspect_machine(2, /*again=*/true, /*store_in_any_case=*/true).stored);
  EXPECT_THAT(machine_cost_model(2).source, StartsWith("measured next to other programs, 1.5 processors busy"));
}

}  // namespace
}  // namespace plimsoll
