// Tests zero3 with a part of the parameters whole on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ranks/decoder_training.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::RankCase;

TEST(WholePart, GivesTheBitsOfOneRank) {
  const TempFolder folder;
  const RankCase of{"float32", 2};
  const std::string reference = testing::reference_text(testing::small_decoder(), of, folder.path());
  const std::vector<std::string> texts =
      testing::run_ranks(2, folder.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
        TrainingOptions options = testing::options_of(of, 2, rank, Strategy::zero3, exchange);
        options.ranks.whole_part = 0.5;
        return testing::train_steps(testing::small_decoder(), of, options);
      });
  EXPECT_THAT(texts, ::testing::Each(reference));
}

TEST(WholePart, LiesBetweenZero2AndZero3) {
  const TempFolder folder;
  const auto stored = [&](Strategy strategy, double part) {
    return std::stoll(testing::run_ranks(1, folder.path(), [&](int, const auto&) {
      TrainingOptions options = testing::options_of({"float32", 4}, 4, 0, strategy);
      options.ranks.whole_part = part;
      return std::to_string(plan_step(testing::small_decoder(), options).plan.persistent_bytes);
    })[0]);
  };
  const int64_t second = stored(Strategy::zero2, 0), none = stored(Strategy::zero3, 0);
  EXPECT_EQ(stored(Strategy::zero3, 1), second);
  EXPECT_LT(stored(Strategy::zero3, 0.5), second);
  EXPECT_GT(stored(Strategy::zero3, 0.5), none);
}

}  // namespace
}  // namespace plimsoll
