// Tests profiles of ranks, which are threads of this process, so that all have one clock.
#include "run/step_profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>

#include "collectives/rank_fault.h"
#include "collectives/ranks.h"
#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A step from `begin` on with `count` ops of 10 ns, each 20 ns after the one before. The first is an exchange.
std::vector<ProfiledStep> steps_of(int64_t begin, int32_t count) {
  auto plan = std::make_shared<ProfiledPlan>(Plan{});
  ProfiledStep step;
  step.number = 2;
  step.span = {begin, begin + 20 * count};
  for (int32_t i = 0; i < count; ++i) {
    ProfiledOp& op = plan->ops.emplace_back();
    op.name = i == 0 ? "plimsoll::all_gather_" : fmt::format("aten::op_{}", i);
    op.module = "layers.3.self_attention.query";
    op.link_bytes = i == 0 ? 4096 : 0;
    op.exchange = i == 0;
    step.ops.push_back({i, {begin + 20 * i, begin + 20 * i + 10}});
  }
  step.plan = plan;
  return {step};
}

json json_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

class RankProfile : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::filesystem::path file_ = folder_ / "profile.json";
};

// Rank 1 has events of several MiB: more than one piece. Rank 2 begins first.
TEST_F(RankProfile, HasAProcessForEachRankOnOneClock) {
  const std::map<int, int64_t> begins = {{0, 5'000}, {1, 7'500}, {2, 4'000}};
  const std::map<int, int32_t> counts = {{0, 3}, {1, 20'000}, {2, 1}};
  EXPECT_THAT(run_ranks(3,
                        [&](Exchange& exchange) {
                          const int rank = exchange.rank();
                          write_profile_of_ranks(rank == 0 ? file_ : std::filesystem::path(), {"a machine", 4},
                                                 steps_of(begins.at(rank), counts.at(rank)), exchange);
                        }),
              Each(""));
  const json profile = json_of(file_);
  ASSERT_TRUE(profile.is_object());
  EXPECT_EQ(profile["otherData"]["ranks"], 3);
  std::map<int, std::string> names;
  std::map<int, int32_t> ops;
  for (const json& event : profile["traceEvents"]) {
    const int rank = event["pid"].get<int>() - 1;
    if (event["name"] == "process_name") names[rank] = event["args"]["name"];
    if (event["ph"] != "X" || event["cat"] == "step") continue;
    const int32_t index = event["args"]["op"];
    EXPECT_EQ(index, ops[rank]++);
    EXPECT_EQ(event["cat"], index == 0 ? "exchange" : "forward");
    EXPECT_EQ(std::llround(event["ts"].get<double>() * 1000), begins.at(rank) - 4'000 + 20 * index);
    if (index == 0) {
      EXPECT_EQ(event["name"], "plimsoll::all_gather_");
      EXPECT_EQ(event["args"]["sent_bytes"], 4096);
    }
  }
  EXPECT_EQ(ops, counts);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(names[rank], fmt::format("rank {} on {}", rank, host_name()));
  EXPECT_GT(std::filesystem::file_size(file_), 3u << 20);
}

// Other rows of a viewer stay without a name.
TEST_F(RankProfile, NamesTheRowsThatStepsHave) {
  const auto rows_with = [&](const std::vector<ProfiledStep>& steps) {
    write_profile(file_, {"a machine", 2}, steps);
    const json profile = json_of(file_);
    std::map<int, std::string> rows;
    for (const json& event : profile["traceEvents"])
      if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
    return rows;
  };
  std::vector<ProfiledStep> steps = steps_of(0, 3);
  EXPECT_THAT(rows_with(steps), ElementsAre(Pair(1, "ops (2 threads)")));
  steps[0].copies = {{1, {5, 8}}};
  EXPECT_THAT(rows_with(steps), ElementsAre(Pair(1, "ops (2 threads)"), Pair(2, "copies")));
  steps[0].copies = {{0, {5, 8}}};
  EXPECT_THAT(rows_with(steps), ElementsAre(Pair(1, "ops (2 threads)"), Pair(3, "exchanges beside ops")));
}

TEST_F(RankProfile, AFileThatCannotBeWrittenIsRefusedOnEveryRankAndCanBeTriedAgain) {
  EXPECT_THAT(run_ranks(2,
                        [&](Exchange& exchange) {
                          const auto write = [&](const std::filesystem::path& file) {
                            write_profile_of_ranks(file, {"a machine", 1}, steps_of(100, 20'000), exchange);
                          };
                          try {
                            write(folder_ / "missing" / "profile.json");
                            throw InternalError("a file in a missing folder was written");
                          } catch (const UserError& error) {
                            EXPECT_THAT(error.what(), HasSubstr("missing"));
                          }
                          write(file_);
                        }),
              Each(""));
  EXPECT_TRUE(json_of(file_).is_object());
}

}  // namespace
}  // namespace plimsoll
