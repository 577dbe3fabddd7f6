#include "files/npy.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "files/npy_files.h"
#include "files/npz.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NpyArray parse(const std::string& bytes) {
  return parse_npy(std::as_bytes(std::span(bytes)), "a.npy");
}
std::string refusal(const std::string& bytes) {
  const std::string message = user_error_of([&] { parse(bytes); });
  EXPECT_THAT(message, ::testing::StartsWith("a.npy: "));
  return message;
}

TEST(Npy, ReadsEveryTypeInBothByteOrders) {
  const auto both = [](const std::string& code, const auto& numbers) {
    std::string swapped(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(numbers[0]));
    for (size_t i = 0; i < swapped.size(); i += sizeof(numbers[0]))
      std::reverse(swapped.begin() + long(i), swapped.begin() + long(i + sizeof(numbers[0])));
    const std::string shape = "(" + std::to_string(numbers.size()) + ",)";
    for (const auto& array :
         {parse(npy("<" + code, shape, numbers)), parse(npy_of_header(npy_header(">" + code, shape), swapped))})
      for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(array.at(int64_t(i)), double(numbers[i])) << code;
  };
  both("i1", std::vector<int8_t>{-128, 0, 127});
  both("u1", std::vector<uint8_t>{0, 255});
  both("i2", std::vector<int16_t>{-32768, 1});
  both("u2", std::vector<uint16_t>{65535, 1});
  both("i4", std::vector<int32_t>{INT32_MIN, 5});
  both("u4", std::vector<uint32_t>{UINT32_MAX, 5});
  both("i8", std::vector<int64_t>{-7, int64_t{1} << 52});
  both("u8", std::vector<uint64_t>{7, uint64_t{1} << 52});
  both("f4", std::vector<float>{-1.5F, 1e-30F});
  both("f8", std::vector<double>{-1.5, 1e300});
  EXPECT_EQ(parse(npy("|b1", "(2,)", std::vector<uint8_t>{0, 1})).at(1), 1);
  // 1, -2, the least and the largest number, the least normal one, infinity, not a number.
  const NpyArray halves =
      parse(npy("<f2", "(7,)", std::vector<uint16_t>{0x3c00, 0xc000, 1, 0x7bff, 0x400, 0x7c00, 0x7e00}));
  EXPECT_EQ(halves.at(0), 1);
  EXPECT_EQ(halves.at(1), -2);
  EXPECT_EQ(halves.at(2), 0x1p-24);
  EXPECT_EQ(halves.at(3), 65504);
  EXPECT_EQ(halves.at(4), 0x1p-14);
  EXPECT_TRUE(std::isinf(halves.at(5)) && std::isnan(halves.at(6)));
}

TEST(Npy, HasNoElementsBehindItsLastOne) {
  for (const char* type : {"|u1", "<f2", "<f8"}) {
    const int64_t size = type[2] - '0';
    const NpyArray array = parse(npy_of_header(npy_header(type, "(2, 3)"), std::string(6 * size_t(size), '\1')));
    EXPECT_NO_THROW(array.at(5));
    EXPECT_THROW(array.at(6), InternalError);
    EXPECT_THROW(array.at(-1), InternalError);
  }
}

TEST(Npy, ReadsAllVersionsAndBothOrders) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const std::string data(reinterpret_cast<const char*>(numbers.data()), 24);
  for (const int version : {1, 2, 3}) {
    const NpyArray array = parse(npy_of_header(npy_header("<f4", "(2, 3)"), data, version));
    EXPECT_THAT(array.sizes, ElementsAre(2, 3));
    EXPECT_EQ(array.floats(), numbers);
  }
  // Columns one after the other.
  EXPECT_THAT(parse(npy_of_header(npy_header("<f4", "(2, 3)", true), data)).floats(), ElementsAre(1, 3, 5, 2, 4, 6));
  const NpyArray deep = parse(npy_of_header(npy_header("<f4", "(1, 2, 3)", true), data));
  EXPECT_THAT(deep.floats(), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_EQ(parse(npy_of_header("{\"shape\": (6,), \"fortran_order\": False, \"descr\": \"<f4\"}", data)).count(), 6);
  EXPECT_THAT(parse(npy_of_header(npy_header("<f4", "()"), data.substr(0, 4))).sizes, ElementsAre());
}

TEST(Npy, TurnsFortranOrderAsIndicesSay) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> sizes(1 + random() % 4);
    std::string shape = "(";
    int64_t count = 1;
    for (int64_t& size : sizes) {
      size = 1 + random() % 4;
      count *= size;
      shape += std::to_string(size) + ",";
    }
    std::vector<int32_t> numbers(static_cast<size_t>(count));
    for (int32_t& number : numbers) number = static_cast<int32_t>(random());
    const NpyArray array =
        parse(npy_of_header(npy_header("<i4", shape + ")", true),
                            std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4)));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, fortran = 0;
      std::vector<int64_t> index(sizes.size());
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) index[d] = rest % sizes[d];
      for (size_t d = sizes.size(); d-- > 0;) fortran = fortran * sizes[d] + index[d];
      ASSERT_EQ(array.at(i), numbers[static_cast<size_t>(fortran)]) << shape;
    }
  }
}

TEST(Npy, SaysWhatItCannotRead) {
  EXPECT_THAT(refusal(npy_of_header(npy_header("|O", "(2,)"), "xx")), HasSubstr("Python objects (a pickle)"));
  EXPECT_THAT(refusal(npy_of_header(npy_header("<U3", "(1,)"), std::string(12, 'x'))), HasSubstr("texts"));
  EXPECT_THAT(refusal(npy_of_header(npy_header("<c8", "(1,)"), std::string(8, 'x'))), HasSubstr("type '<c8'"));
  EXPECT_THAT(refusal(npy_of_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd")),
              HasSubstr("records with named fields"));
  EXPECT_THAT(refusal("\x89PNG\r\n\x1a\n and more"), HasSubstr("it is a PNG picture"));
  EXPECT_THAT(refusal("words"), HasSubstr("does not begin as one"));
}

// Nothing is allocated for a header's claim.
TEST(Npy, RefusesHostileHeaders) {
  const auto header = [](const std::string& shape) {
    return npy_of_header(npy_header("<f4", shape), std::string(8, 'x'));
  };
  EXPECT_THAT(refusal(header("(4611686018427387904, 4611686018427387904)")), HasSubstr("truncated or damaged"));
  EXPECT_THAT(refusal(header("(3,)")), HasSubstr("says 3 of float32, 12 bytes, and has 8"));
  EXPECT_THAT(refusal(header("(1,)")), HasSubstr("holds more than an array"));
  EXPECT_THAT(refusal(header("(-1,)")), HasSubstr("whole numbers from 0 on"));
  EXPECT_THAT(refusal(header("(99999999999999999999,)")), HasSubstr("whole numbers from 0 on"));
  EXPECT_THAT(refusal(header("(9223372036854775807, 0)")), HasSubstr("holds more"));
  std::string dimensions = "(";
  for (int i = 0; i < 40; ++i) dimensions += "1,";
  EXPECT_THAT(refusal(header(dimensions + ")")), HasSubstr("more than 32 dimensions"));
  EXPECT_THAT(refusal(npy_of_header("{'descr': '<f4', 'shape': (2,)}", "xxxxxxxx")), HasSubstr("without"));
  EXPECT_THAT(refusal(npy_of_header(npy_header("<f4", "(2,)") + "import os", "xxxxxxxx")), HasSubstr("more behind"));
  EXPECT_THAT(refusal(npy_of_header(npy_header("<f4", "(2,)"), "xxxxxxxx", 9)), HasSubstr("version 9"));
  std::string longest = npy_of_header(npy_header("<f4", "(2,)"), "xxxxxxxx", 2);
  for (size_t i = 8; i < 12; ++i) longest[i] = '\x7f';
  EXPECT_THAT(refusal(longest), HasSubstr("says that its header has"));
}

TEST(Npy, SurvivesDamage) {
  const std::string whole = npy("<f4", "(2, 2)", std::vector<float>{1, 2, 3, 4});
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole.substr(0, random() % 4 == 0 ? random() % whole.size() : whole.size());
    for (uint32_t changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? "(),:'{"[random() % 6] : random());
    try {
      const NpyArray array = parse(bytes);
      EXPECT_LE(array.bytes.size(), bytes.size());
    } catch (const UserError&) {
    }
  }
}

TEST(Npz, ReadsStoredAndDeflatedArrays) {
  const TempFolder folder;
  for (const bool deflated : {false, true}) {
    std::vector<float> many(50000, 2.5F);
    const NpzFile file(put_file(folder / "a.npz", zip({{"x.npy", npy("<f4", "(50000,)", many)},
                                                       {"y.npy", npy("<i8", "(2,)", std::vector<int64_t>{3, 4})}},
                                                      deflated)));
    EXPECT_THAT(file.names(), ElementsAre("x", "y"));
    EXPECT_EQ(file.read("x").floats(), many);
    EXPECT_EQ(file.read("y").at(1), 4);
    EXPECT_THAT(user_error_of([&] { file.read("z"); }),
                AllOf(HasSubstr("a.npz"), HasSubstr("no array 'z'; it has: x, y")));
  }
}

// 400 kB could hold the 300 MB that the directory announces; nothing of them is unpacked.
TEST(Npz, RefusesArraysThatUnpackToMoreThanTheyMay) {
  const TempFolder folder;
  std::vector<uint8_t> noise(400'000);
  std::mt19937 random(5);
  for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random());
  std::string bytes = zip({{"x.npy", npy("|u1", "(400000,)", noise)}}, true);
  const size_t entry = bytes.rfind("PK\1\2");
  bytes.replace(entry + 24, 4, little_endian(300'000'000, 4));
  EXPECT_THAT(
      user_error_of([&] { NpzFile(put_file(folder / "a.npz", bytes)).read("x"); }),
      AllOf(HasSubstr("a.npz: the array 'x': announces 300000000 bytes; allowed: 140"), HasSubstr("numpy.savez")));
}

TEST(Npy, ReadsTheSameFromBytesThatItMayKeep) {
  for (const bool fortran : {false, true})
    for (const char* type : {"<i2", ">i2"}) {
      const std::string file = npy_of_header(npy_header(type, "(2, 3)", fortran), "abcdefghijkl");
      const auto bytes = std::as_bytes(std::span(file));
      const NpyArray copied = parse_npy(bytes, "a.npy");
      EXPECT_EQ(parse_npy(std::vector<std::byte>(bytes.begin(), bytes.end()), "a.npy").bytes, copied.bytes);
    }
}

TEST(Npz, RefusesDamage) {
  const TempFolder folder;
  const std::string array = npy("<f4", "(4,)", std::vector<float>{1, 2, 3, 4}), good = zip({{"x.npy", array}}, true);
  const auto refusal = [&](const std::string& bytes) {
    return user_error_of([&] { NpzFile(put_file(folder / "a.npz", bytes)).read("x"); });
  };
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(refusal("no archive"), HasSubstr("is not an archive"));
  EXPECT_THAT(refusal(""), HasSubstr("is not an archive"));
  EXPECT_THAT(refusal(array), HasSubstr("it is a NumPy array (.npy)"));
  EXPECT_THAT(refusal(zip({{"x.npy", array}, {"x.npy", array}}, false)), HasSubstr("twice"));
  EXPECT_THAT(refusal(zip({{"x.txt", "text"}}, false)), HasSubstr("is no array"));
  const size_t entry = good.find("PK\1\2");
  const auto with = [&](size_t at, uint64_t value, int bytes) {
    std::string spoiled = good;
    spoiled.replace(entry + at, size_t(bytes), little_endian(value, bytes));
    return spoiled;
  };
  EXPECT_THAT(refusal(with(8, 1, 2)), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(with(10, 12, 2)), HasSubstr("method 12"));
  EXPECT_THAT(refusal(with(24, 0xfffffff0, 4)), HasSubstr("cannot hold"));
  EXPECT_THAT(refusal(with(24, array.size() + 1, 4)), HasSubstr("damaged"));
  EXPECT_THAT(refusal(with(24, array.size() - 1, 4)), HasSubstr("damaged"));
  EXPECT_THAT(refusal(with(20, 0xffffffff, 4)), HasSubstr("zip64"));
  EXPECT_THAT(refusal(with(16, 1, 4)), HasSubstr("checksum"));
  EXPECT_THAT(refusal(with(42, 5, 4)), HasSubstr("not where the directory says"));
  std::vector<std::pair<std::string, std::string>> odd(20, {"\x1b[2J.npy", array});
  for (size_t i = 0; i < odd.size(); ++i) odd[i].first += std::string(1000, 'x') + std::to_string(i) + ".npy";
  const std::string named = user_error_of([&] { NpzFile(put_file(folder / "odd.npz", zip(odd, false))).read("none"); });
  EXPECT_THAT(named, HasSubstr("it has: ?[2J.npyxxx"));
  EXPECT_LT(named.size(), 1200u);  // twelve names, each cut
  std::mt19937 random(1);
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (uint32_t changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      EXPECT_LE(NpzFile(put_file(folder / "b.npz", bytes)).read("x").bytes.size(), array.size());
    } catch (const UserError&) {
    }
  }
}

}  // namespace
}  // namespace plimsoll
