#include "data/text/text_baselines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/hash.h"
#include "data/text/text_baseline_test.h"

namespace plimsoll {
namespace {

class TextBaselinesTest : public testing::TextBaselineTest {
 protected:
  TextDataset dataset(const std::string& text, int64_t length) { return TextDataset(config_of(text, length), *bytes_); }
};

TEST_F(TextBaselinesTest, WhatAlternatesIsKnownFromTheTokenBefore) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += i % 2 ? 'b' : 'a';
  const TextDataset data = dataset(text, 16);
  const TextBaselines counted = text_baselines(data, all(data));
  EXPECT_NEAR(counted.frequencies, std::log(2.0), 0.1);  // each token is counted once more
  EXPECT_GT(counted.frequencies, std::log(2.0));
  EXPECT_LT(counted.pairs, 0.01);
}

TEST_F(TextBaselinesTest, NothingForetellsWhatIsRandom) {
  SplitMix64 random(3);
  std::string text;
  for (int i = 0; i < 40000; ++i) text += static_cast<char>('a' + random.next() % 16);
  const TextDataset data = dataset(text, 32);
  const TextBaselines counted = text_baselines(data, all(data));
  EXPECT_NEAR(counted.frequencies, std::log(16.0), 0.02);
  EXPECT_NEAR(counted.pairs, std::log(16.0), 0.03);
}

// Against sums over the windows taken one by one.
TEST_F(TextBaselinesTest, AreThoseOfTheWindowsThatAreEvaluated) {
  const TextDataset data =
      dataset("the cat sat on the mat; the rat sat on the cat; that cat ate the rat at the mat", 5);
  std::map<int64_t, double> count;
  std::map<int64_t, std::map<int64_t, double>> after;
  double counted = 0;
  std::vector<int64_t> tokens(5), targets(5);
  for (int64_t w = 0; w < data.windows(Split::train); ++w) {
    data.fill(Split::train, w, tokens.data(), targets.data());
    for (size_t i = 0; i < 5; ++i) ++count[targets[i]], ++after[tokens[i]][targets[i]], ++counted;
  }
  ASSERT_GE(data.windows(Split::validation), 3);
  for (const std::vector<int64_t>& windows : {std::vector<int64_t>{0}, {1, 2}, {2, 0, 1}}) {
    double frequencies = 0, pairs = 0;
    for (const int64_t w : windows) {
      data.fill(Split::validation, w, tokens.data(), targets.data());
      for (size_t i = 0; i < 5; ++i) {
        const double p = (count[targets[i]] + 1) / (counted + static_cast<double>(data.vocab_size()));
        double whole = 0, different = 0;
        for (const auto& [token, times] : after[tokens[i]]) whole += times, different += times > 0;
        frequencies -= std::log(p) / (5 * static_cast<double>(windows.size()));
        pairs -= std::log(whole == 0 ? p : (after[tokens[i]][targets[i]] + different * p) / (whole + different)) /
                 (5 * static_cast<double>(windows.size()));
      }
    }
    const TextBaselines found = text_baselines(data, windows);
    EXPECT_NEAR(found.frequencies, frequencies, 1e-12);
    EXPECT_NEAR(found.pairs, pairs, 1e-12);
  }
}

}  // namespace
}  // namespace plimsoll
