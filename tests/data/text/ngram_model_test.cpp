#include "data/text/ngram_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

double sum_over_vocabulary(const NgramModel& model, int64_t vocabulary, const std::vector<int64_t>& context) {
  double sum = 0;
  for (int64_t token = 0; token < vocabulary; ++token) {
    const double probability = model.probability(context, token);
    EXPECT_GT(probability, 0);
    sum += probability;
  }
  return sum;
}

// By hand: a b a c a b. Pairs: ab twice; ba, ac, ca once. The tokens before a are b and c, before b and c only a. No
// pair and no token has a count of 3, so the discounts are 0.5 and 1.
TEST(NgramModel, IsTheFormulaByHand) {
  NgramModel model(3, 2);
  model.count(std::vector<int64_t>{0, 1, 0, 2, 0, 1});
  model.finish();
  EXPECT_THAT(model.discounts(1), ElementsAre(0.5, 1, 1.5));
  EXPECT_THAT(model.discounts(2), ElementsAre(0.5, 1, 1.5));
  const double a = (2 - 1 + (1 + 2 * 0.5) / 3) / 4, b = (1 - 0.5 + (1 + 2 * 0.5) / 3) / 4;
  EXPECT_NEAR(model.probability({}, 0), a, 1e-12);
  EXPECT_NEAR(model.probability({}, 1), b, 1e-12);
  EXPECT_NEAR(model.probability({}, 2), b, 1e-12);
  const std::vector<int64_t> after_a = {2, 0}, after_c = {2};
  EXPECT_NEAR(model.probability(after_a, 1), (2 - 1 + 1.5 * b) / 3, 1e-12);
  EXPECT_NEAR(model.probability(after_a, 2), (1 - 0.5 + 1.5 * b) / 3, 1e-12);
  EXPECT_NEAR(model.probability(after_a, 0), 1.5 * a / 3, 1e-12);
  EXPECT_NEAR(model.probability(after_c, 0), 1 - 0.5 + 0.5 * a, 1e-12);
}

// Four tokens once, two twice, one three and one four times.
TEST(NgramModel, EstimatesDiscountsFromCountsOfCounts) {
  NgramModel model(10, 1);
  model.count(std::vector<int64_t>{0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7});
  model.finish();
  EXPECT_THAT(model.discounts(1), ElementsAre(1 - 2 * 0.5 * 2 / 4, 2 - 3 * 0.5 * 1 / 2, 3 - 4 * 0.5 * 1 / 1));
  EXPECT_NEAR(sum_over_vocabulary(model, 10, {}), 1, 1e-12);
  EXPECT_NEAR(model.probability({}, 9), (4 * 0.5 + 2 * 1.25 + 2 * 1) / 15 / 10, 1e-12);
}

// Contexts of every length, most of which the text has and some of which it does not have.
TEST(NgramModel, ProbabilitiesSumToOne) {
  SplitMix64 random(7);
  for (const int64_t vocabulary : {4, 300, 70000}) {
    NgramModel model(vocabulary, 5);
    std::vector<int64_t> all;
    for (int piece = 0; piece < 40; ++piece) {
      std::vector<int64_t> tokens;
      const uint64_t length = 1 + random.below(60);
      for (uint64_t i = 0; i < length; ++i)
        tokens.push_back(vocabulary - 1 - static_cast<int64_t>(random.below(2 + random.below(3))));
      model.count(tokens);
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    model.finish();
    for (size_t length = 0; length < 6; ++length) {
      const auto seen = all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size() - 8));
      EXPECT_NEAR(sum_over_vocabulary(model, vocabulary, {seen, seen + static_cast<std::ptrdiff_t>(length)}), 1, 1e-9);
    }
    EXPECT_NEAR(sum_over_vocabulary(model, vocabulary, {0, 0, 0, 0}), 1, 1e-9);
    EXPECT_NEAR(sum_over_vocabulary(model, vocabulary, {0, 1, vocabulary - 1}), 1, 1e-9);
  }
}

// A pair that begins in one piece and ends in the next is none.
TEST(NgramModel, CountsNothingAcrossPieces) {
  NgramModel apart(4, 2), together(4, 2);
  apart.count(std::vector<int64_t>{0, 1});
  apart.count(std::vector<int64_t>{2, 3});
  together.count(std::vector<int64_t>{0, 1, 2, 3});
  apart.finish();
  together.finish();
  const std::vector<int64_t> one = {1};
  EXPECT_LT(apart.probability(one, 2), 0.4);
  EXPECT_GT(together.probability(one, 2), 0.6);
}

TEST(NgramTable, FindsWhatWasAddedAndBoundsItsBytes) {
  NgramTable table;
  EXPECT_EQ(table.find(0), nullptr);
  std::map<uint64_t, uint32_t> expected;
  SplitMix64 random(1);
  for (uint32_t i = 0; i < 20000; ++i) {
    const uint64_t key = random.below(15000) << (random.below(2) * 32);
    const size_t bound = table.peak_bytes_with(1);
    EXPECT_GE(bound, (table.size() + 1) * 12);
    const auto [value, added] = table.find_or_add(key, i);
    EXPECT_EQ(added, expected.try_emplace(key, i).second);
    EXPECT_EQ(*value, expected.at(key));
  }
  EXPECT_EQ(table.size(), expected.size());
  for (const auto& [key, value] : expected) ASSERT_EQ(*table.find(key), value);
  EXPECT_EQ(table.find(uint64_t{16000}), nullptr);
  size_t entries = 0;
  table.for_each([&](uint64_t key, uint32_t value) { entries += expected.at(key) == value; });
  EXPECT_EQ(entries, expected.size());
  // Far more than there is: the bound grows with what may come.
  EXPECT_GT(table.peak_bytes_with(1'000'000), size_t{12'000'000});
}

}  // namespace
}  // namespace plimsoll
