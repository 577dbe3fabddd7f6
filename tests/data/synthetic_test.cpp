#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "data/sample_source.h"

namespace plimsoll {
namespace {

const std::vector<SyntheticField> kFields = {{"x", DType::float32, {3, 5}, 0}, {"tokens", DType::int64, {7}, 11}};

TEST(SyntheticBatch, ASampleDependsOnSeedAndIndexAlone) {
  const Batch all = make_synthetic_batch(kFields, 1, 0, {4, 9, 2});
  const Batch one = make_synthetic_batch(kFields, 1, 6, {9});
  for (size_t f = 0; f < kFields.size(); ++f) {
    const size_t bytes = one.fields[f].bytes.size();
    EXPECT_EQ(all.fields[f].bytes.size(), 3 * bytes);
    EXPECT_EQ(std::memcmp(all.fields[f].bytes.data() + bytes, one.fields[f].bytes.data(), bytes), 0);
    EXPECT_NE(std::memcmp(all.fields[f].bytes.data(), one.fields[f].bytes.data(), bytes), 0);
    EXPECT_NE(make_synthetic_batch(kFields, 2, 6, {9}).fields[f].bytes, one.fields[f].bytes);
  }
  EXPECT_EQ(all.fields[0].sizes, (std::vector<int64_t>{3, 3, 5}));
  EXPECT_EQ(all.samples, 3);
}

TEST(SyntheticBatch, NumbersAreNormalAndTokensInRange) {
  const Batch batch =
      make_synthetic_batch({{"x", DType::float32, {50001}, 0}, {"tokens", DType::int64, {5000}, 11}}, 3, 0, {0});
  const auto* x = reinterpret_cast<const float*>(batch.fields[0].bytes.data());
  double sum = 0, squares = 0;
  for (int i = 0; i < 50001; ++i) sum += x[i], squares += x[i] * x[i];
  EXPECT_NEAR(sum / 50001, 0, 0.02);
  EXPECT_NEAR(squares / 50001, 1, 0.03);
  const auto* tokens = reinterpret_cast<const int64_t*>(batch.fields[1].bytes.data());
  std::vector<int> seen(11, 0);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_GE(tokens[i], 0);
    ASSERT_LT(tokens[i], 11);
    ++seen[tokens[i]];
  }
  for (int count : seen) EXPECT_GT(count, 300);
}

TEST(SyntheticSamples, HoldOutWhatIsNotTrainedOn) {
  DataConfig config;
  config.samples = 10;
  config.validation_fraction = 0.2;
  const auto source = synthetic_samples(config, 5, kFields);
  ASSERT_EQ(source->samples(Split::train), 8);
  ASSERT_EQ(source->samples(Split::validation), 2);
  const Batch held_out = source->batch(WindowOrder(2, 0, false), Split::validation, 0, 1);
  EXPECT_EQ(held_out.fields[0].bytes, make_synthetic_batch(kFields, 5, 0, {8}).fields[0].bytes);
  const Batch again = source->batch(WindowOrder(8, 0, false), Split::train, 8, 2);  // the second epoch
  EXPECT_EQ(again.fields[0].bytes, make_synthetic_batch(kFields, 5, 8, {0, 1}).fields[0].bytes);
  config.samples = 1;
  EXPECT_EQ(synthetic_samples(config, 5, kFields)->samples(Split::train), 1);
}

}  // namespace
}  // namespace plimsoll
