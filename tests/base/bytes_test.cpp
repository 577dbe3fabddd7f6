#include "plimsoll/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "base/text.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll {
namespace {

TEST(ParseBytes, MeansWhatIsWritten) {
  EXPECT_EQ(parse_bytes("8GiB"), 8 * GiB);
  EXPECT_EQ(parse_bytes("8GB"), 8'000'000'000);
  EXPECT_EQ(parse_bytes("512 MiB"), 512 * MiB);
  EXPECT_EQ(parse_bytes("1.5GiB"), 3 * GiB / 2);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("3 kb"), 3000);
  EXPECT_EQ(parse_bytes("3KIB"), 3 * KiB);
  EXPECT_EQ(parse_bytes("2TiB"), 2048 * GiB);
  EXPECT_EQ(parse_bytes("2tb"), 2'000'000'000'000);
  EXPECT_EQ(parse_bytes("1PiB"), int64_t{1} << 50);
  EXPECT_EQ(parse_bytes("1PB"), 1'000'000'000'000'000);
  EXPECT_EQ(parse_bytes("0"), 0);
}

TEST(ParseBytes, RoundsFractionsDown) {
  EXPECT_EQ(parse_bytes("0.3KiB"), 307);  // 307.2
  EXPECT_EQ(parse_bytes("1.9999KiB"), 2047);
  EXPECT_EQ(parse_bytes("0.1GB"), 100'000'000);
  // 2^-50 and the next smaller decimal of as many digits.
  EXPECT_EQ(parse_bytes("0.00000000000000088817841970012523233890533447265625PiB"), 1);
  EXPECT_EQ(parse_bytes("0.00000000000000088817841970012523233890533447265624PiB"), 0);
}

TEST(ParseBytes, ReachesTheLargestAndNoFurther) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"9223372036854775808", "8192PiB", "99999999999999999999999999", "9223372036854775807KB"})
    EXPECT_THROW(parse_bytes(text), UserError) << text;
}

TEST(ParseBytes, RefusesTheRestAndSaysWhatIsAllowed) {
  for (const char* text :
       {"",      " ",      "GiB",   "8G",    "8 Gi", "-1",   "-1GiB", "+1",  "1e9",  "8GiBs", "1.GiB",
        ".5GiB", "1,5GiB", " 8GiB", "8GiB ", "8  ",  "0x10", "1.2.3", "nan", "8EiB", "8\tGiB"})
    EXPECT_THROW(parse_bytes(text), UserError) << text;
  EXPECT_THAT(refusal_of([] { parse_bytes("8 apples"); }, UserError::Kind::usage),
              ::testing::AllOf(::testing::HasSubstr("'8 apples'"), ::testing::HasSubstr("GiB")));
}

// memory_budget=1.5 is meant as GiB; read as bytes it would be one byte.
TEST(ParseBytes, RefusesPartsOfAByte) {
  for (const char* text : {"1.5", "1.5B", "0.5 b", "1.0"})
    EXPECT_THAT(refusal_of([&] { parse_bytes(text); }),
                ::testing::AllOf(::testing::HasSubstr(text), ::testing::HasSubstr("parts of a byte")));
  EXPECT_THROW(parse_bytes("1.5"), UserError);
}

TEST(FormatBytesUp, IsReadBackAsNoLess) {
  EXPECT_EQ(format_bytes_up(1'477'468'749), "1.38 GiB");  // 1.376 GiB
  EXPECT_EQ(format_bytes_up(1'482'184'793), "1.39 GiB");  // 1.3804 GiB
  EXPECT_EQ(format_bytes_up(GiB), "1.00 GiB");
  EXPECT_EQ(format_bytes_up(GiB + 1), "1.01 GiB");
  EXPECT_EQ(format_bytes_up(0), "0 B");
  EXPECT_EQ(format_bytes_up(1023 * MiB + 1), "1.00 GiB");
  const auto read_back = [](int64_t bytes) {
    const std::string text = format_bytes_up(bytes);
    EXPECT_GE(parse_bytes(text), bytes) << text;
    // At most a hundredth too much if there are units.
    EXPECT_LE(static_cast<double>(parse_bytes(text)), 1.0101 * static_cast<double>(bytes)) << text << " of " << bytes;
  };
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) read_back(static_cast<int64_t>(random() >> (1 + random() % 63)));
  for (int shift = 0; shift < 63; ++shift)
    for (int64_t more : {-1, 0, 1}) read_back((int64_t{1} << shift) + more);
  read_back(std::numeric_limits<int64_t>::max());
}

TEST(FormatBytes, HasThreeFiguresAndAUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(KiB), "1.00 KiB");
  EXPECT_EQ(format_bytes(38'378'000), "36.6 MiB");
  EXPECT_EQ(format_bytes(7'967'164'334), "7.42 GiB");
  EXPECT_EQ(format_bytes(512 * MiB), "512 MiB");
  EXPECT_EQ(format_bytes(GiB - 1), "1.00 GiB");  // never "1024 MiB"
  EXPECT_EQ(format_bytes(2048 * GiB), "2.00 TiB");
  EXPECT_EQ(format_bytes(-3 * MiB), "-3.00 MiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::min()), "-8.00 EiB");
}

TEST(FormatBytes, IsReadBackWithinItsRounding) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto bytes = static_cast<int64_t>(random() >> (10 + random() % 50));
    const std::string text = format_bytes(bytes);
    EXPECT_LE(std::abs(static_cast<double>(parse_bytes(text) - bytes)), 0.006 * static_cast<double>(bytes) + 1) << text;
  }
}

}  // namespace
}  // namespace plimsoll
