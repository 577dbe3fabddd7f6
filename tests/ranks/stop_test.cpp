// Tests a stop that reaches one rank before the first step: all ranks end, and none waits for one that is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <csignal>
#include <thread>

#include "collectives/ranks.h"
#include "plimsoll/train_job.h"
#include "ranks/forked_ranks.h"
#include "test_files.h"
#include "train/prepared_run.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

enum class When { before, planned };

class Stopper : public TrainObserver {
 public:
  explicit Stopper(bool stops) : stops_(stops) {}
  void planned(const PlannedJob&) override {
    if (stops_) request_stop();
  }

 private:
  bool stops_;
};

TEST(StopOfRanks, BeforeTheFirstStepStopsAllRanks) {
  for (const int stopped : {0, 1})
    for (const When when : {When::before, When::planned}) {
      SCOPED_TRACE(fmt::format("rank {}, {}", stopped, when == When::before ? "before planning" : "after planning"));
      const TempFolder folder;
      Job job = tiny_job(folder);
      job.ranks.count = 2;
      const std::vector<std::string> ranks =
          testing::run_ranks(2, folder.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
            if (rank == stopped && when == When::before) request_stop();
            Stopper observer(rank == stopped && when == When::planned);
            const TrainReport report = train_job(job, observer, {}, exchange);
            exchange->gather_text("");  // a rank that leaves first would be named by the other
            return fmt::format("stopped {}, {} steps", report.stopped, report.losses.size());
          });
      EXPECT_THAT(ranks, ::testing::Each("stopped true, 0 steps"));
    }
}

/// Rank 1 ends after it has planned. Rank 0 goes on with its own work until it is asked to stop.
class LostWhilePlanning : public TrainObserver {
 public:
  explicit LostWhilePlanning(int rank) : rank_(rank) {}
  void planned(const PlannedJob&) override {
    if (rank_ == 1) ::raise(SIGKILL);
    while (!is_stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  int rank_;
};

TEST(StopOfRanks, ARankThatIsLostEndsAnotherThatDoesNotWaitForIt) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.ranks.count = 2;
  const auto block = shared_block(2);
  const std::vector<std::string> ranks = run_processes(
      2,
      [&](int rank) {
        const auto exchange = std::make_shared<SharedMemoryExchange>(
            block, rank, 2, SharedMemoryOptions{std::chrono::seconds(3), "here"});
        LostWhilePlanning observer(rank);
        return error_of([&] { train_job(job, observer, {}, exchange); });
      },
      std::chrono::minutes(10));
  EXPECT_EQ(ranks[0], "rank 1 (host here) ended in the planning");
}

}  // namespace
}  // namespace plimsoll
