#include "data/text/text_dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "test_files.h"

namespace plimsoll {
namespace {

// Against sums over the windows taken one by one.
TEST(TextSamples, TheBaselineIsByTheFrequenciesOfTheTrainingTokens) {
  const TempFolder folder;
  DataConfig config;
  config.files = {put_file(folder / "text", "the cat sat on the mat; the rat sat on the cat; that cat ate the rat")};
  config.sequence_length = 5;
  config.validation_fraction = 0.25;
  config.cache_dir = folder / "cache";
  const auto bytes = make_tokenizer("bytes", "");
  const TextDataset data(config, *bytes);
  std::map<int64_t, double> count;
  double counted = 0;
  std::vector<int64_t> tokens(5), targets(5);
  for (int64_t w = 0; w < data.windows(Split::train); ++w) {
    data.fill(Split::train, w, tokens.data(), targets.data());
    for (const int64_t target : targets) ++count[target], ++counted;
  }
  ASSERT_GE(data.windows(Split::validation), 3);
  const auto samples = text_samples(config, *bytes, {});
  for (const std::vector<int64_t>& windows : {std::vector<int64_t>{0}, {1, 2}, {2, 0, 1}}) {
    double nats = 0;
    for (const int64_t w : windows) {
      data.fill(Split::validation, w, tokens.data(), targets.data());
      for (const int64_t target : targets)
        nats -= std::log((count[target] + 1) / (counted + static_cast<double>(data.vocab_size()))) /
                (5 * static_cast<double>(windows.size()));
    }
    const std::vector<Baseline> found = samples->baselines(windows);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].metric, kEvaluationLoss);
    EXPECT_NEAR(found[0].value, nats, 1e-12);
  }
  EXPECT_TRUE(samples->baselines({}).empty());
}

}  // namespace
}  // namespace plimsoll
