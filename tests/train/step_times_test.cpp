// Tests the times of steps: the first two count only if there are no others. Tests that a run says that its processors
// are shared, once, and only if it is slower than predicted.
#include "train/step_times.h"

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
    stalls_ += short_of_memory * seconds;
  }
  double stalls() const { return stalls_; }
  double busy = 0;
  double short_of_memory = 0;  ///< part of the time

 private:
  double used_ = 0, stalls_ = 100;
};

/// Returns the lines of `steps` steps of 0.5 s, by step.
std::vector<std::pair<int, std::string>> lines(SharedMachine& machine, SharedMachineWatch& watch, int steps,
                                               double predicted) {
  std::vector<std::pair<int, std::string>> message;
  for (int step = 1; step <= steps; ++step) {
    machine.pass(0.5);
    if (std::string line = watch.after_step(0.5, predicted, machine.stalls()); !line.empty())
      message.emplace_back(step, std::move(line));
  }
  return message;
}

TEST(SharedMachineWatch, AreSaidOnceAfterTheFirstSteps) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  machine.busy = 1.5;
  SharedMachineWatch cores(2);
  const auto message = lines(machine, cores, 20, 0.1);
  ASSERT_EQ(message.size(), 1u);
  EXPECT_EQ(message[0].first, 5);
  EXPECT_THAT(message[0].second, AllOf(HasSubstr("a step takes 0.5 s; 0.1 s were predicted"), HasSubstr("keep 1.5 of"),
                                       HasSubstr("2 threads")));
}

TEST(SharedMachineWatch, AreNotSaidIfThePredictionHoldsOrProcessorsAreFree) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  machine.busy = 1;
  SharedMachineWatch as_predicted(2), one_thread(1);
  EXPECT_TRUE(lines(machine, as_predicted, 20, 0.5).empty());
  EXPECT_TRUE(lines(machine, one_thread, 20, 0.1).empty());
  machine.busy = 0;
  SharedMachineWatch alone(2);
  EXPECT_TRUE(lines(machine, alone, 20, 0.1).empty());
}

TEST(SharedMachineWatch, AreSaidIfTheOthersComeLater) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  SharedMachineWatch cores(2);
  EXPECT_TRUE(lines(machine, cores, 20, 0.1).empty());
  machine.busy = 2;
  EXPECT_EQ(lines(machine, cores, 20, 0.1).size(), 1u);
}

TEST(SharedMachineWatch, MemoryThatOthersHaveIsSaid) {
  SharedMachine machine;
  const MeasuringMachineScope scope(machine);
  machine.short_of_memory = 0.25;
  SharedMachineWatch slow(2), as_predicted(2);
  const auto message = lines(machine, slow, 20, 0.1);
  ASSERT_EQ(message.size(), 1u);
  EXPECT_THAT(message[0].second, AllOf(HasSubstr("memory was short for 25 % of the time"), HasSubstr("memory_budget")));
  EXPECT_TRUE(lines(machine, as_predicted, 20, 0.5).empty());
  machine.short_of_memory = 0.05;
  SharedMachineWatch little(2);
  EXPECT_TRUE(lines(machine, little, 20, 0.1).empty());
}

using ::testing::HasSubstr;
using ::testing::Not;

StepTimes times_of(const std::vector<double>& seconds) {
  StepTimes times;
  for (const double each : seconds) times.add(each, 12, 2 * each, each / 4);
  return times;
}

TEST(StepTimes, WithoutAStepAreZero) {
  EXPECT_EQ(times_of({}).median_seconds(), 0);
  EXPECT_EQ(times_of({}).tokens_per_second(), 0);
  EXPECT_FALSE(times_of({}).representative());
}

TEST(StepTimes, TheFirstTwoCountIfThereAreNoOthers) {
  EXPECT_EQ(times_of({4}).median_seconds(), 4);
  EXPECT_EQ(times_of({4}).tokens_per_second(), 3);
  EXPECT_FALSE(times_of({4, 4}).representative());
  EXPECT_EQ(times_of({4, 4}).median_seconds(), 4);
}

TEST(StepTimes, LaterOnesCountAlone) {
  EXPECT_TRUE(times_of({9, 9, 2}).representative());
  EXPECT_EQ(times_of({9, 9, 2}).median_seconds(), 2);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_seconds(), 2);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_predicted_seconds(), 4);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).mean_data_seconds(), 0.75);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_compute_seconds(), 1.5);
  EXPECT_EQ(times_of({9, 9, 2, 4}).tokens_per_second(), 4);
}

TEST(DataNote, NamesAWaitOfMoreThanATenth) {
  Job job;
  job.device = "cpu";
  job.threads = 1;
  job.data.num_workers = 3;
  const auto note_of = [&](double data_seconds) {
    StepTimes times;
    for (int i = 0; i < 5; ++i) times.add(2, 12, 2, data_seconds);
    return data_note(job, times);
  };
  EXPECT_EQ(note_of(0), "");
  EXPECT_EQ(note_of(0.19), "");
  EXPECT_THAT(note_of(0.5), HasSubstr("steps waited for data for 25 % of their time; raise data.num_workers (now 3)"));
  job.data.num_workers = 4;
  job.data.prefetch = 4;  // more workers than batches ahead would only wait
  EXPECT_THAT(note_of(0.5), HasSubstr("raise data.num_workers (now 4) and data.prefetch (now 4)"));
  job.threads = 1000;
  EXPECT_THAT(note_of(0.5), HasSubstr("lower threads (now 1000)"));
  job.device = "cuda";
  EXPECT_THAT(note_of(0.5), Not(HasSubstr("lower threads")));
}

// Several workers deliver batches in bursts: most steps do not wait.
TEST(DataNote, CountsTheWaitsOfAFewSteps) {
  StepTimes times;
  for (int i = 0; i < 22; ++i) times.add(2, 12, 2, i % 4 == 3 ? 1.8 : 0);
  EXPECT_THAT(data_note(Job(), times), HasSubstr("for data for 22 % of"));
}

}  // namespace
}  // namespace plimsoll
