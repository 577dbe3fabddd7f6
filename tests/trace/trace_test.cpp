#include "plimsoll/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(DType, HasBytesAndPyTorchsName) {
  EXPECT_EQ(element_bytes(DType::float32), 4);
  EXPECT_EQ(element_bytes(DType::float64), 8);
  EXPECT_EQ(element_bytes(DType::float16), 2);
  EXPECT_EQ(element_bytes(DType::bfloat16), 2);
  EXPECT_EQ(element_bytes(DType::int64), 8);
  EXPECT_EQ(element_bytes(DType::int32), 4);
  EXPECT_EQ(element_bytes(DType::int16), 2);
  EXPECT_EQ(element_bytes(DType::int8), 1);
  EXPECT_EQ(element_bytes(DType::uint8), 1);
  EXPECT_EQ(element_bytes(DType::boolean), 1);
  EXPECT_EQ(element_bytes(DType::complex64), 8);
  EXPECT_EQ(element_bytes(DType::complex128), 16);
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(DType::complex128); ++i) names.insert(name_of(static_cast<DType>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(DType::complex128) + 1);
}

TEST(DType, OutsideTheListIsOurBug) {
  EXPECT_THROW(element_bytes(static_cast<DType>(200)), InternalError);
  EXPECT_THROW(name_of(static_cast<DType>(200)), InternalError);
}

}  // namespace
}  // namespace plimsoll
