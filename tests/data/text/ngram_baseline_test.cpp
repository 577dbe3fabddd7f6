#include "data/text/ngram_baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/hash.h"
#include "data/text/ngram_model.h"
#include "data/text/text_baseline_test.h"
#include "data/text/text_baselines.h"
#include "data/text/text_samples.h"
#include "plimsoll/bytes.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

class NgramBaselineTest : public testing::TextBaselineTest {};

// Words in random order: their letters follow from more than the one before.
std::string words(uint64_t seed, int count) {
  SplitMix64 random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) text += std::array{"there ", "other ", "here ", "thermal ", "herd "}[random.below(5)];
  return text;
}

TEST_F(NgramBaselineTest, IsBelowThePairsOnWords) {
  const TextDataset data(config_of(words(1, 3000), 32), *bytes_);
  const WindowOrder order(data.windows(Split::train), 1, true);
  const NgramBaseline counted = ngram_baseline(data, all(data), order, order.count(), MiB * 64);
  const TextBaselines others = text_baselines(data, all(data));
  EXPECT_LT(counted.nats, 0.75 * others.pairs);
  EXPECT_GT(counted.nats, std::log(5.0) / 8);  // a word's choice is random, and a word has at most 8 letters
  EXPECT_EQ(counted.tokens, order.count() * 32);
  EXPECT_EQ(counted.of_tokens, counted.tokens);
}

// Against a model that is given the windows one by one.
TEST_F(NgramBaselineTest, ReadsTheRunsWindowsAndPredictsWithinAWindow) {
  const TextDataset data(config_of(words(2, 200), 6), *bytes_);
  const WindowOrder order(data.windows(Split::train), 5, true);
  NgramModel model(data.vocab_size(), kBaselineOrder);
  std::vector<int64_t> tokens(6), targets(6);
  for (int64_t i = 0; i < 40; ++i) {
    data.fill(Split::train, order.index(i), tokens.data(), targets.data());
    std::vector<int64_t> piece = tokens;
    piece.push_back(targets.back());
    model.count(piece);
  }
  model.finish();
  double nats = 0;
  for (const int64_t window : {3, 1}) {
    data.fill(Split::validation, window, tokens.data(), targets.data());
    for (size_t i = 0; i < 6; ++i) nats -= std::log(model.probability(std::span(tokens).first(i + 1), targets[i])) / 12;
  }
  const NgramBaseline counted = ngram_baseline(data, {3, 1}, order, 40, MiB * 64);
  EXPECT_NEAR(counted.nats, nats, 1e-12);
  EXPECT_EQ(counted.tokens, 240);
}

// The second epoch brings nothing new; tables that may take nothing hold one window.
TEST_F(NgramBaselineTest, CountsEachWindowOnceWithinItsMemory) {
  const TextDataset data(config_of(words(3, 300), 16), *bytes_);
  const WindowOrder order(data.windows(Split::train), 5, true);
  EXPECT_EQ(ngram_baseline(data, {0}, order, 3 * order.count(), MiB * 64).of_tokens, order.count() * 16);
  const NgramBaseline small = ngram_baseline(data, {0}, order, order.count(), 1);
  EXPECT_EQ(small.tokens, 16);
  EXPECT_EQ(small.of_tokens, order.count() * 16);
  EXPECT_TRUE(std::isfinite(small.nats));
}

// Three of the ten windows of 16 targets have at most 50 targets together.
TEST_F(NgramBaselineTest, PredictsEvenlySpreadWindowsWithinItsTargets) {
  const TextDataset data(config_of(words(6, 400), 16), *bytes_);
  const WindowOrder order(data.windows(Split::train), 5, true);
  const std::vector<int64_t> held_out = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  ASSERT_GE(data.windows(Split::validation), 10);
  const auto nats = [&](const std::vector<int64_t>& windows, int64_t max_targets) {
    return ngram_baseline(data, windows, order, order.count(), MiB * 64, max_targets).nats;
  };
  EXPECT_DOUBLE_EQ(nats(held_out, 50), nats({9, 6, 3}, 48));
  EXPECT_DOUBLE_EQ(nats(held_out, 1), nats({9}, 16));
  EXPECT_DOUBLE_EQ(nats(held_out, 160), nats(held_out, kMaxNgramTargets));
  EXPECT_NE(nats(held_out, 50), nats(held_out, 160));
}

TEST_F(NgramBaselineTest, AWindowOfOneTokenHasPairsOnly) {
  const TextDataset data(config_of(words(4, 100), 1), *bytes_);
  const WindowOrder order(data.windows(Split::train), 5, true);
  EXPECT_GT(ngram_baseline(data, all(data), order, order.count(), MiB).nats, 0);
}

TEST_F(NgramBaselineTest, IsShownBesideTheOthersWithItsTokens) {
  DataConfig config = config_of(words(5, 2000), 16);
  const auto samples = text_samples(config, *bytes_, {});
  const WindowOrder order(samples->samples(Split::train), 5, true);
  EXPECT_EQ(samples->run_baselines({}, order, 7).size(), 0u);
  EXPECT_EQ(samples->baselines({0, 1}).size(), 2u);
  const auto beside = samples->run_baselines({0, 1}, order, 7);
  ASSERT_EQ(beside.size(), 3u);
  EXPECT_EQ(beside[2].name, "5-gram, Kneser-Ney, equal tokens");
  config.memory_budget = 1;
  EXPECT_THAT(text_samples(config, *bytes_, {})->run_baselines({0}, order, 7)[2].name, HasSubstr("16 of 112 tokens"));
}

}  // namespace
}  // namespace plimsoll
