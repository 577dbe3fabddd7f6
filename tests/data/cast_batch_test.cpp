#include "data/cast_batch.h"

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

}  // namespace
}  // namespace plimsoll
