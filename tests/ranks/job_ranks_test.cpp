// Tests jobs on two ranks: their profile is one file with the steps of both.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <set>

#include "plimsoll/train_job.h"
#include "ranks/forked_ranks.h"
#include "test_files.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::Each;

// `max_steps` 3: the job ends before the last step that was chosen, and the file is written at its end.
TEST(ProfileOfRanks, HasTheStepsAndExchangesOfBoth) {
  for (const int64_t max_steps : {3, 6}) {
    const TempFolder folder;
    const std::filesystem::path file = folder / "profile.json";
    Job job = tiny_job(folder);
    job.ranks.count = 2;
    job.max_steps = max_steps;
    const std::vector<std::string> ranks =
        testing::run_ranks(2, folder.path(), [&](int, const std::shared_ptr<Exchange>& exchange) {
          Watcher observer;
          const TrainReport report = train_job(job, observer, {.file = file}, exchange);
          exchange->gather_text("");  // a rank that leaves first would be named by the other
          return fmt::format("{} steps, {}", report.steps_profiled, report.not_written.size());
        });
    const int64_t steps = std::min<int64_t>(max_steps - 1, 3);
    EXPECT_THAT(ranks, Each(fmt::format("{} steps, 0", steps)));
    std::ifstream stream(file);
    const json profile = json::parse(stream, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(profile.is_object());
    std::map<int, std::vector<std::string>> steps_of, exchanges_of;  // by process, in order
    for (const json& event : profile["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["ts"], 0);
      if (event["cat"] == "step") steps_of[event["pid"]].push_back(event["name"]);
      if (event["cat"] == "exchange") exchanges_of[event["pid"]].push_back(event["name"]);
    }
    ASSERT_EQ(steps_of.size(), 2u);
    EXPECT_EQ(steps_of[1].size(), static_cast<size_t>(steps));
    EXPECT_EQ(steps_of[1], steps_of[2]);
    EXPECT_EQ(exchanges_of[1], exchanges_of[2]);
    EXPECT_THAT(exchanges_of[1], Contains(::testing::StartsWith("plimsoll::")));
  }
}

}  // namespace
}  // namespace plimsoll
