// Tests that only the rank that reports computes baselines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/train_job.h"
#include "ranks/forked_ranks.h"
#include "test_files.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

class BaselineCounter : public TrainObserver {
 public:
  void preparing(const std::string& what, double) override { calls += what == "baselines on the held-out part"; }
  int calls = 0;
};

TEST(BaselinesOfRanks, AreComputedByTheFirstRank) {
  const TempFolder folder;
  Job job = tiny_job(folder, /*windows=*/8, /*validation=*/4);
  job.ranks.count = 2;
  job.max_steps = 2;
  const std::vector<std::string> ranks =
      testing::run_ranks(2, folder.path(), [&](int, const std::shared_ptr<Exchange>& exchange) {
        BaselineCounter observer;
        const TrainReport report = train_job(job, observer, {}, exchange);
        exchange->gather_text("");  // a rank that leaves first would be named by the other
        return fmt::format("{} steps, evaluated {}, {} calls, baselines {}", report.losses.size(),
                           report.last_evaluation.has_value(), observer.calls, !report.baselines.empty());
      });
  EXPECT_THAT(ranks, ::testing::ElementsAre("2 steps, evaluated true, 2 calls, baselines true",
                                            "2 steps, evaluated true, 0 calls, baselines false"));
}

}  // namespace
}  // namespace plimsoll
