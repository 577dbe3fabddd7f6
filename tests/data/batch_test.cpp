#include "data/batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace plimsoll {
namespace {

Batch batch_of(const std::vector<float>& values) {
  BatchField field{"x", DType::float32, {std::ssize(values)}, std::vector<std::byte>(values.size() * 4)};
  std::memcpy(field.bytes.data(), values.data(), field.bytes.size());
  return {0, std::ssize(values), {field, {"tokens", DType::int64, {1}, std::vector<std::byte>(8)}}};
}

float at(const Batch& batch, size_t i) {
  uint16_t half = 0;
  std::memcpy(&half, batch.fields[0].bytes.data() + 2 * i, 2);
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

TEST(CastBatch, RoundsToTheNearestEvenAndLeavesWholeNumbersAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  // 1/128 is the last bit of 1; halves of it go to the even neighbor.
  const std::vector<float> values = {1, 1 + 1.f / 256, 1 + 3.f / 256, 1.00401f, -1 - 3.f / 256, 3.4e38f, infinity,
                                     0, -0.f};
  Batch batch = batch_of(values);
  cast_to_bfloat16(batch);
  EXPECT_EQ(batch.fields[0].dtype, DType::bfloat16);
  EXPECT_EQ(batch.fields[0].bytes.size(), 2 * values.size());
  const std::vector<float> wanted = {1, 1, 1 + 4.f / 256, 1 + 2.f / 256, -1 - 4.f / 256, infinity, infinity, 0, -0.f};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(at(batch, i), wanted[i]) << i;
  EXPECT_TRUE(std::signbit(at(batch, 8)));
  EXPECT_EQ(batch.fields[1].dtype, DType::int64);
  EXPECT_EQ(batch.fields[1].bytes.size(), 8u);
}

TEST(CastBatch, NotANumberStaysOne) {
  Batch batch = batch_of({std::nanf(""), -std::nanf("0x12345")});
  cast_to_bfloat16(batch);
  EXPECT_TRUE(std::isnan(at(batch, 0)));
  EXPECT_TRUE(std::isnan(at(batch, 1)));
}

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
