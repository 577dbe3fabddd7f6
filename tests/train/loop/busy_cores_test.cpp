// Tests that a run says that its processors are shared, once, and only if it is slower than predicted.
#include "train/loop/busy_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stated_machine.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A machine with two processors, of which other programs keep `busy` busy.
class SharedMachine final : public StatedMachine {
 public:
  std::optional<OtherWork> other_work() override { return OtherWork{.seconds = used_, .processors = 2}; }
  void pass(double seconds) {
    wait(seconds);
    used_ += busy * seconds;
  }
  double busy = 0;

 private:
  double used_ = 0;
};

/// Returns the lines of `steps` steps of 0.5 s, by step.
std::vector<std::pair<int, std::string>> lines(SharedMachine& machine, BusyCores& cores, int steps, double predicted) {
  std::vector<std::pair<int, std::string>> message;
  for (int step = 1; step <= steps; ++step) {
    machine.pass(0.5);
    if (std::string line = cores.after_step(0.5, predicted); !line.empty()) message.emplace_back(step, std::move(line));
  }
  return message;
}

TEST(BusyCores, AreSaidOnceAfterTheFirstSteps) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  machine.busy = 1.5;
  BusyCores cores(2);
  const auto message = lines(machine, cores, 20, 0.1);
  ASSERT_EQ(message.size(), 1u);
  EXPECT_EQ(message[0].first, 5);
  EXPECT_THAT(message[0].second, AllOf(HasSubstr("a step takes 0.5 s; 0.1 s were predicted"), HasSubstr("keep 1.5 of"),
                                    HasSubstr("2 threads")));
}

TEST(BusyCores, AreNotSaidIfThePredictionHoldsOrProcessorsAreFree) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  machine.busy = 1;
  BusyCores as_predicted(2), one_thread(1);
  EXPECT_TRUE(lines(machine, as_predicted, 20, 0.5).empty());
  EXPECT_TRUE(lines(machine, one_thread, 20, 0.1).empty());
  machine.busy = 0;
  BusyCores alone(2);
  EXPECT_TRUE(lines(machine, alone, 20, 0.1).empty());
}

TEST(BusyCores, AreSaidIfTheOthersComeLater) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  BusyCores cores(2);
  EXPECT_TRUE(lines(machine, cores, 20, 0.1).empty());
  machine.busy = 2;
  EXPECT_EQ(lines(machine, cores, 20, 0.1).size(), 1u);
}

}  // namespace
}  // namespace plimsoll
