#include "run/rank_consistency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "collectives/ranks.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::Each;

Op op_named(const char* name) {
  Op op;
  op.name = name;
  return op;
}

MeasuredWorkspace knowing(const std::map<std::string, int64_t>& scratch) {
  MeasuredWorkspace workspace{WorkspaceModel()};
  for (const auto& [name, bytes] : scratch) workspace.record(op_named(name.c_str()), bytes);
  return workspace;
}

// Rank 1 had measured before what rank 0 just measured: it re-plans all the same.
TEST(RankConsistency, AllRanksPlanAgainIfOneDoes) {
  for (const bool first_learns : {true, false}) {
    std::array<bool, 3> again{};
    const auto errors = run_ranks(3, [&](Exchange& exchange) {
      MeasuredWorkspace workspace = knowing({{"mm", 64}});
      again[exchange.rank()] = merge_workspaces(exchange, workspace, first_learns && exchange.rank() == 0);
    });
    EXPECT_THAT(errors, Each(""));
    EXPECT_THAT(again, Each(first_learns));
  }
}

TEST(RankConsistency, TheLargestScratchOfAllRanksCounts) {
  std::array<std::string, 3> texts;
  std::array<bool, 3> again{};
  const auto errors = run_ranks(3, [&](Exchange& exchange) {
    const int rank = exchange.rank();
    MeasuredWorkspace workspace = knowing({{"mm", 64 * (rank + 1)}, {"conv", 300 - rank}});
    again[rank] = merge_workspaces(exchange, workspace, false);
    texts[rank] = workspace.text();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(again, Each(true));
  EXPECT_THAT(texts, Each(knowing({{"mm", 192}, {"conv", 300}}).text()));
}

TEST(RankConsistency, LossesAreAddedInTheOrderOfTheStep) {
  // In another order the sum has other bits.
  const std::array<std::vector<double>, 2> losses{std::vector<double>{1e16, -1e16}, {1.0, 1.0}};
  std::array<SummedLosses, 2> sums;
  const auto errors = run_ranks(2, [&](Exchange& exchange) {
    sums[exchange.rank()] = sum_losses(exchange, losses[exchange.rank()], exchange.rank() == 1);
  });
  EXPECT_THAT(errors, Each(""));
  for (const SummedLosses& each : sums) {
    EXPECT_EQ(each.sum, ((1e16 + 1.0) + -1e16) + 1.0);
    EXPECT_TRUE(each.found_more);
  }
}

TEST(RankConsistency, OtherExchangesAreRefusedOnEveryRank) {
  const auto errors = run_ranks(2, [&](Exchange& exchange) {
    Trace trace;
    trace.buffers.push_back({});
    trace.buffers.back().bytes = 4096;
    Op op = op_named("plimsoll::all_gather_");
    op.arguments.push_back(
        {Argument::Kind::tensor, true, {{0, DType::float32, 0, {512 * (exchange.rank() + 1)}, {1}}}});
    op.link_bytes = 512;
    trace.ops = {op};
    trace.segments = {{SegmentKind::micro, 0, 1}};
    require_same_exchanges(exchange, trace);
  });
  EXPECT_THAT(errors, Each(::testing::HasSubstr("rank 1 plans other exchanges than rank 0")));
}

}  // namespace
}  // namespace plimsoll
