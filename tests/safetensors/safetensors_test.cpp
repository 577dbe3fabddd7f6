#include "safetensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "cut_files.h"
#include "plimsoll/error.h"
#include "rounds.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class SafetensorsTest : public ::testing::Test {
 protected:
  void put(std::string_view contents) const { put_file(path_, contents); }
  std::string get() const { return get_file(path_); }
  /// A file of that JSON and `data` zero bytes.
  void put_raw(const std::string& json, size_t data) const {
    uint64_t length = json.size();
    std::string contents(reinterpret_cast<const char*>(&length), sizeof length);
    put(contents + json + std::string(data, '\0'));
  }
  std::string open_failure(UserError::Kind kind = UserError::Kind::failure) const {
    const std::string message = refusal_of([&] { SafetensorsFile::open(path_); }, kind);
    EXPECT_THAT(message, HasSubstr(path_.string()));
    return message;
  }
  std::string failure_of(const std::string& json, size_t data) const {
    put_raw(json, data);
    std::string message = open_failure();
    EXPECT_THAT(message, HasSubstr("nothing was loaded"));
    return message;
  }
  std::string verify_failure() const {
    SafetensorsFile file = SafetensorsFile::open(path_);
    return refusal_of([&] { file.verify(); }, UserError::Kind::failure);
  }
  /// Three tensors and a step, with checksums.
  void write_example() const {
    std::string weight(24, 'w'), bias(6, 'b'), mask(3, '\1');
    SafetensorsWriter writer(path_,
                             {{"layer.weight", DType::float32, {2, 3}, content_hash(bytes_of(weight))},
                              {"layer.bias", DType::bfloat16, {3}, content_hash(bytes_of(bias))},
                              {"nothing", DType::float16, {0, 4}, content_hash({})},
                              {"mask", DType::boolean, {3}, {}}},
                             {{"step", "100"}, {"quote", "\"\\ ü"}});
    writer.write("layer.weight", bytes_of(weight).first(10));
    writer.write("layer.weight", bytes_of(weight).subspan(10));
    writer.write("layer.bias", bytes_of(bias));
    writer.write("nothing", {});
    writer.write("mask", bytes_of(mask));
    writer.commit();
  }

  const TempFolder temporary_;
  const fs::path folder_ = temporary_.path(), path_ = folder_ / "model.safetensors";
};

TEST_F(SafetensorsTest, WhatWasWrittenIsRead) {
  write_example();
  SafetensorsFile opened = SafetensorsFile::open(path_);
  SafetensorsFile file = std::move(opened);
  ASSERT_THAT(file.tensors(), SizeIs(4));
  const StoredTensor& weight = file.tensors().at("layer.weight");
  EXPECT_EQ(weight.dtype, DType::float32);
  EXPECT_THAT(weight.sizes, ElementsAre(2, 3));
  EXPECT_EQ(text_of(weight.bytes), std::string(24, 'w'));
  EXPECT_EQ(file.tensors().at("layer.bias").dtype, DType::bfloat16);
  EXPECT_EQ(text_of(file.tensors().at("layer.bias").bytes), "bbbbbb");
  EXPECT_THAT(file.tensors().at("nothing").sizes, ElementsAre(0, 4));
  EXPECT_THAT(file.tensors().at("nothing").bytes, IsEmpty());
  EXPECT_EQ(text_of(file.tensors().at("mask").bytes), "\1\1\1");
  EXPECT_EQ(file.metadata().at("step"), "100");
  EXPECT_EQ(file.metadata().at("quote"), "\"\\ ü");
  EXPECT_EQ(file.verify(), 3u);
}

TEST_F(SafetensorsTest, TheDataAreAlignedAndTheHeaderIsPaddedWithSpaces) {
  for (size_t length : {1, 20, 21, 50, 63, 64, 65}) {
    SafetensorsWriter writer(path_, {{std::string(length, 'n'), DType::uint8, {1}, {}}});
    writer.write(std::string(length, 'n'), bytes_of("x"));
    writer.commit();
    std::string contents = get();
    EXPECT_EQ(contents.size() % 64, 1u);
    uint64_t header = 0;
    std::memcpy(&header, contents.data(), sizeof header);
    EXPECT_EQ(8 + header + 1, contents.size());
    EXPECT_EQ(contents.find_last_not_of(' ', contents.size() - 2), contents.find_last_of('}'));
  }
}

TEST_F(SafetensorsTest, RandomFilesComeBack) {
  constexpr DType kAll[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::int64,
                            DType::int32,   DType::int16,   DType::int8,    DType::uint8,    DType::boolean};
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    std::vector<TensorDeclaration> tensors(random() % 12);
    std::vector<std::string> contents;
    for (TensorDeclaration& tensor : tensors) {
      tensor.name = "t" + std::to_string(random());
      tensor.dtype = kAll[random() % std::size(kAll)];
      tensor.sizes.resize(random() % 4);
      for (int64_t& size : tensor.sizes) size = random() % 5;
      std::string& content = contents.emplace_back();
      content.resize(static_cast<size_t>(safetensors_bytes(tensor.dtype, tensor.sizes).value()));
      for (char& c : content) c = static_cast<char>(random());
      tensor.hash = content_hash(bytes_of(content));
    }
    SafetensorsWriter writer(path_, tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
      size_t cut = contents[i].empty() ? 0 : random() % contents[i].size();
      writer.write(tensors[i].name, bytes_of(contents[i]).first(cut));
      writer.write(tensors[i].name, bytes_of(contents[i]).subspan(cut));
    }
    writer.commit();
    SafetensorsFile file = SafetensorsFile::open(path_);
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const StoredTensor& tensor = file.tensors().at(tensors[i].name);
      EXPECT_EQ(tensor.dtype, tensors[i].dtype);
      EXPECT_EQ(tensor.sizes, tensors[i].sizes);
      EXPECT_EQ(text_of(tensor.bytes), contents[i]);
    }
    EXPECT_EQ(file.verify(), tensors.size());
  }
}

TEST_F(SafetensorsTest, AFileOfAnotherProgramIsReadAndHasNothingToVerify) {
  put_raw(
      R"({"b":{"data_offsets":[4,12],"shape":[],"dtype":"I64"},"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}}  )",
      12);
  SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.tensors().at("a").bytes.size(), 4u);
  EXPECT_EQ(file.tensors().at("b").bytes.data(), file.tensors().at("a").bytes.data() + 4);
  EXPECT_THAT(file.tensors().at("b").sizes, IsEmpty());
  EXPECT_THAT(file.metadata(), IsEmpty());
  EXPECT_EQ(file.verify(), 0u);
}

TEST_F(SafetensorsTest, AnEmptyFileOfTheFormatIsFine) {
  put_raw("{}", 0);
  EXPECT_THAT(SafetensorsFile::open(path_).tensors(), IsEmpty());
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  write_example();
  std::string whole = get();
  for (size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_THAT(open_failure(), AllOf(HasSubstr("is truncated"), HasSubstr("nothing was loaded")));
  }
}

TEST_F(SafetensorsTest, AFlippedBitIsFoundOrHarmless) {
  write_example();
  std::string whole = get();
  for (size_t bit = 0; bit < whole.size() * 8; bit += 9) {  // one a byte, every place in turn
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    put(flipped);
    try {
      SafetensorsFile file = SafetensorsFile::open(path_);
      file.verify();
      EXPECT_EQ(text_of(file.tensors().at("layer.weight").bytes), std::string(24, 'w')) << "bit " << bit;
      EXPECT_EQ(text_of(file.tensors().at("layer.bias").bytes), "bbbbbb") << "bit " << bit;
      EXPECT_THAT(file.tensors().at("layer.weight").sizes, ElementsAre(2, 3)) << "bit " << bit;
      EXPECT_EQ(file.metadata().at("step"), "100") << "bit " << bit;
    } catch (const UserError&) {
    }
  }
}

TEST_F(SafetensorsTest, VerifyNamesTheTensorThatChanged) {
  write_example();
  std::string contents = get();
  contents[contents.size() - 5] ^= 1;  // the last tensors are 6 bytes of bias and 3 of mask, which has no checksum
  put(contents);
  EXPECT_THAT(verify_failure(), AllOf(StartsWith(path_.string() + " is corrupt"), HasSubstr("'layer.bias'"),
                                      HasSubstr("nothing was loaded")));
}

TEST_F(SafetensorsTest, VerifyFindsAChangedHeader) {
  write_example();
  std::string contents = get();
  contents.replace(contents.find("\"100\""), 5, "\"900\"");
  put(contents);
  EXPECT_THAT(verify_failure(), HasSubstr("its header does not have the checksum"));
}

TEST_F(SafetensorsTest, AChecksumOfAnAbsentTensorIsCorrupt) {
  put_raw(R"({"__metadata__":{"hash:gone":"0000000000000000"}})", 0);
  EXPECT_THAT(verify_failure(), HasSubstr("'gone'"));
}

TEST_F(SafetensorsTest, MissingFilesAndOddPathsAreErrors) {
  const auto refused = [&] { return open_failure(UserError::Kind::usage); };
  EXPECT_THAT(refused(), AllOf(HasSubstr("cannot read"), HasSubstr("No such file")));
  fs::create_directory(path_);
  EXPECT_THAT(refused(), HasSubstr("it is a folder; name a file"));
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refused(), HasSubstr("not a regular file"));
}

TEST_F(SafetensorsTest, AHeaderLengthThatCannotBeIsRefusedBeforeAnythingIsTaken) {
  put(std::string(64, '\xff'));
  EXPECT_THAT(open_failure(), AllOf(HasSubstr("is corrupt"), HasSubstr("100000000 are allowed")));
  put(std::string("\x00\xe1\xf5\x05\x00\x00\x00\x00{}", 10));  // 100 000 000, the limit itself, in a file of 10 bytes
  EXPECT_THAT(open_failure(), HasSubstr("is truncated"));
  put(std::string(8, '\0'));
  EXPECT_THAT(open_failure(), HasSubstr("is corrupt"));
}

struct Bad {
  const char* json;
  size_t data;
  const char* message;
};

TEST_F(SafetensorsTest, HostileHeadersAreRefusedWithTheReason) {
  const Bad cases[] = {
      {"[]", 0, "does not start with '{'"},
      {" {}", 0, "does not start with '{'"},
      {"{", 0, "not valid JSON"},
      {"{}x", 0, "not valid JSON"},
      {"{\"a\xff\":1}", 0, "not valid JSON"},
      {R"({"a":1})", 0, "'a': a number is not allowed here"},
      {R"({"a":null})", 0, "null is not allowed"},
      {R"({"a":[]})", 0, "an array is not allowed"},
      {R"({"a":"x"})", 0, "a string is not allowed"},
      {R"({"__metadata__":{"a":1}})", 0, "a number is not allowed under 'a'"},
      {R"({"__metadata__":{"a":true}})", 0, "true or false"},
      {R"({"__metadata__":{"a":{}}})", 0, "an object is not allowed"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "the key 'a' comes twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "'__metadata__': the name comes twice"},
      {R"({"a":{}})", 0, "dtype, shape and data_offsets are needed"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "dtype, shape and data_offsets are needed"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "two data offsets are needed"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "more than two data offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[]}})", 1, "unknown key 'x'"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "the key 'dtype' comes twice"},
      {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype 'F8' (known: F64,"},
      {R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", 1, "an array is not allowed under 'dtype'"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "an array is not allowed under 'shape'"},
      {R"({"a":{"dtype":"U8","shape":[{}],"data_offsets":[0,1]}})", 1, "an object is not allowed under 'shape'"},
      {R"({"a":{"dtype":"U8","shape":"1","data_offsets":[0,1]}})", 1, "a string is not allowed under 'shape'"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "a negative number"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "no integer"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1, "63 bits"},
      {R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}})", 0, "shape overflows"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "shape overflows"},
      {R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0, "shape overflows"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "asks for 8 bytes, its data offsets hold 4"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "ends before it begins"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "the name comes twice"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "the data of 'b' starts at byte 1, expected 2: tensors overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "tensors overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "there is a gap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "there is a gap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "1 bytes follow the last tensor"},
      {"{}", 1, "1 bytes follow the last tensor"},
  };
  for (const Bad& bad : cases) {
    EXPECT_THAT(failure_of(bad.json, bad.data), AllOf(HasSubstr("is corrupt"), HasSubstr(bad.message))) << bad.json;
  }
  EXPECT_THAT(
      failure_of(R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})", 9),
      AllOf(HasSubstr("is truncated"), HasSubstr("it holds 9")));
}

TEST_F(SafetensorsTest, IsAnErrorWhenTheFileShrinksWhileItIsRead) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]}})";
  put_raw(json, 1'000'000);
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_EQ(file.verify(), 0u);
  fs::resize_file(path_, 4096);
  EXPECT_EQ(file.tensors().at("a").bytes[999'999], std::byte{0});
  for (const auto& check : std::vector<std::function<void()>>{[&] { file.verify(); }, [&] { file.require_whole(); }})
    try {
      check();
      FAIL() << "no error";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path_.string()), HasSubstr("has lost some of them while it was read")));
    }
}

TEST_F(SafetensorsTest, IsAnErrorWhereverAndWheneverItIsCut) {
  const std::string a(9000, 'a'), b(5000, 'b');
  SafetensorsWriter writer(path_, {{"a", DType::uint8, {9000}, content_hash(bytes_of(a))},
                                   {"b", DType::uint8, {5000}, content_hash(bytes_of(b))}});
  writer.write("a", bytes_of(a));
  writer.write("b", bytes_of(b));
  writer.commit();
  for (const bool verified : {false, true}) {
    SCOPED_TRACE(verified ? "verified" : "not verified");
    const auto read = [&] {
      const SafetensorsFile file = SafetensorsFile::open(path_);
      if (verified) file.verify();
      std::string all = file.metadata().begin()->second;
      for (const auto& [name, tensor] : file.tensors()) all += name + text_of(tensor.bytes);
      file.require_whole();
      return all;
    };
    expect_no_zeros_when_cut<std::string>(path_, read);
    expect_no_zeros_when_cut_at_random<std::string>(path_, read, testing::rounds(10));
  }
}

TEST_F(SafetensorsTest, DeepNestingAndManyDimensionsAreRefused) {
  EXPECT_THAT(failure_of("{\"a\":" + std::string(1000000, '['), 0), HasSubstr("an array is not allowed"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_THAT(failure_of(deep, 0), HasSubstr("unknown key 'a'"));
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_THAT(failure_of(R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", 1),
              HasSubstr("more than 64 dimensions"));
}

TEST_F(SafetensorsTest, AMessageShowsAHostileNameSafely) {
  std::string message = failure_of(R"({"\u001b[2J)" + std::string(100000, 'x') + R"(":1})", 0);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 500u);
}

TEST_F(SafetensorsTest, AnUnfinishedWriterLeavesNothing) {
  {
    SafetensorsWriter writer(path_, {{"a", DType::uint8, {4}, {}}});
    writer.write("a", bytes_of("ab"));
    EXPECT_THROW(writer.commit(), InternalError);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SafetensorsTest, TheWriterHoldsItsCallerToTheDeclaration) {
  std::vector<TensorDeclaration> two = {{"a", DType::uint8, {2}, content_hash(bytes_of("ab"))},
                                        {"b", DType::uint8, {2}, {}}};
  {
    SafetensorsWriter writer(path_, two);
    EXPECT_THROW(writer.write("b", bytes_of("xy")), InternalError);
    EXPECT_THROW(writer.write("a", bytes_of("abc")), InternalError);
    EXPECT_THROW(writer.write("a", bytes_of("ax")), InternalError);  // not what was hashed
  }
  EXPECT_THROW(SafetensorsWriter(path_, {two[0], two[0]}), InternalError);
  EXPECT_THROW(SafetensorsWriter(path_, {{"__metadata__", DType::uint8, {2}, {}}}), InternalError);
  EXPECT_THROW(SafetensorsWriter(path_, two, {{"hash:a", "x"}}), InternalError);
  EXPECT_THROW(SafetensorsWriter(path_, {{"a", DType::int64, {int64_t{1} << 61}, {}}}), InternalError);
  EXPECT_THROW(SafetensorsWriter(path_, {{"a", DType::complex64, {1}, {}}}), UserError);
  EXPECT_THROW(SafetensorsWriter(path_, {{"\xff", DType::uint8, {1}, {}}}), UserError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST(ContentHash, IsTheSameHoweverTheBytesAreCutAndOnEveryMachine) {
  EXPECT_EQ(content_hash({}), 0x2d06800538d394c2u);  // XXH3's published value for no bytes
  std::string text(1000, 'x');
  ContentHasher hasher;
  hasher.update(bytes_of("left over"));
  hasher.reset();
  for (size_t begin = 0; begin < text.size(); begin += 37)
    hasher.update(bytes_of(std::string_view(text).substr(begin, 37)));
  EXPECT_EQ(hasher.digest(), content_hash(bytes_of(text)));
  text[999] = 'y';
  EXPECT_NE(hasher.digest(), content_hash(bytes_of(text)));
}

}  // namespace
}  // namespace plimsoll
