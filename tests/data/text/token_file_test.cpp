#include "data/text/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "base/process.h"
#include "cut_files.h"
#include "rounds.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path write_tokens(const std::filesystem::path& file, int64_t vocab_size,
                                   const std::vector<int32_t>& tokens) {
  TokenFileWriter writer(file, vocab_size, 42);
  writer.append(tokens);
  writer.finish();
  return file;
}

size_t files_in(const TempFolder& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(TokenFile, RoundTripsAtTheEdgesOfItsWidths) {
  const TempFolder folder;
  const TokenFile narrow(write_tokens(folder / "narrow", 65536, {0, 1, 65535}));
  EXPECT_EQ(narrow.token_bytes(), 2);
  EXPECT_EQ(narrow.vocab_size(), 65536);
  EXPECT_EQ(narrow.source_hash(), 42u);
  EXPECT_EQ(narrow.token(2), 65535);
  const TokenFile wide(write_tokens(folder / "wide", int64_t{1} << 31, {65536, 2147483647}));
  EXPECT_EQ(wide.token_bytes(), 4);
  EXPECT_EQ(wide.token(1), 2147483647);
  EXPECT_EQ(wide.size(), 2);
}

TEST(TokenFile, RoundTripsWhateverTheAppendsAndCopies) {
  const TempFolder folder;
  std::mt19937 random(1);
  for (int32_t vocab_size : {1, 257, 50257, 65536, 65537, 1 << 20}) {
    std::vector<int32_t> tokens;
    TokenFileWriter writer(folder / "tokens", vocab_size, 0);
    for (int i = 0; i < 20; ++i) {
      std::vector<int32_t> some(random() % 100);
      for (int32_t& token : some) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size));
      writer.append(some);
      tokens.insert(tokens.end(), some.begin(), some.end());
    }
    writer.finish();
    const TokenFile file(folder / "tokens");
    ASSERT_EQ(file.size(), std::ssize(tokens));
    for (int i = 0; i < 50; ++i) {
      const int64_t begin = static_cast<int64_t>(random() % (tokens.size() + 1));
      const int64_t count = static_cast<int64_t>(random() % (tokens.size() + 1 - static_cast<size_t>(begin)));
      std::vector<int64_t> copied(static_cast<size_t>(count) + 1, -7);
      file.copy(begin, count, copied.data());
      ASSERT_TRUE(std::equal(copied.begin(), copied.end() - 1, tokens.begin() + begin));
      ASSERT_EQ(copied.back(), -7);  // not one token too many
    }
  }
}

TEST(TokenFile, ReadInWindowsItIsNeverResidentAsAWhole) {
  const TempFolder folder;
  constexpr int64_t kTokens = int64_t{16} << 20, kWindow = 4096;  // 32 MiB
  write_tokens(folder / "tokens", 257, std::vector<int32_t>(kTokens, 7));
  const TokenFile file(folder / "tokens");
  std::vector<int64_t> window(kWindow);
  const int64_t before = resident_memory().now;
  int64_t most = 0, sum = 0;
  for (int64_t begin = 0; begin + kWindow <= kTokens; begin += kWindow) {
    file.copy(begin, kWindow, window.data());
    sum += window[static_cast<size_t>(begin % kWindow)];
    if (begin % (64 * kWindow) == 0) most = std::max(most, resident_memory().now - before);
  }
  EXPECT_EQ(sum, 7 * kTokens / kWindow);
  EXPECT_LT(most, int64_t{8} << 20);
}

TEST(TokenFile, KeepsItsTokensWhenMovedOrReplaced) {
  const TempFolder folder;
  TokenFile file(write_tokens(folder / "tokens", 10, {1, 2, 3}));
  TokenFile moved = std::move(file);
  write_tokens(folder / "tokens", 10, {9});
  EXPECT_EQ(moved.token(2), 3);
  moved = TokenFile(folder / "tokens");
  EXPECT_EQ(moved.token(0), 9);
}

TEST(TokenFile, RefusesReadsPastItsEnd) {
  const TempFolder folder;
  const TokenFile file(write_tokens(folder / "tokens", 10, {1, 2, 3}));
  int64_t out[4];
  EXPECT_THROW(file.token(3), InternalError);
  EXPECT_THROW(file.token(-1), InternalError);
  EXPECT_THROW(file.copy(1, 3, out), InternalError);
  EXPECT_THROW(file.copy(4, 0, out), InternalError);
  EXPECT_THROW(file.copy(1, std::numeric_limits<int64_t>::max(), out), InternalError);
  EXPECT_NO_THROW(file.copy(3, 0, out));
}

TEST(TokenFileWriter, LeavesNothingUnlessFinished) {
  const TempFolder folder;
  write_tokens(folder / "tokens", 10, {1, 2, 3});
  {
    TokenFileWriter writer(folder / "tokens", 10, 0);
    writer.append(std::vector<int32_t>{4});
  }
  EXPECT_EQ(TokenFile(folder / "tokens").size(), 3);
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(TokenFileWriter, RefusesTokensOutsideTheVocabulary) {
  const TempFolder folder;
  TokenFileWriter writer(folder / "tokens", 10, 0);
  EXPECT_THROW(writer.append(std::vector<int32_t>{10}), InternalError);
  EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), InternalError);
}

TEST(TokenFile, SaysWhatToDoWhenDamaged) {
  const TempFolder folder;
  const std::string good = get_file(write_tokens(folder / "tokens", 300, {1, 2, 3}));
  const auto error_of = [&](const std::string& contents) {
    put_file(folder / "tokens", contents);
    return user_error_of([&] { TokenFile file(folder / "tokens"); });
  };
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(error_of(good.substr(0, size)),
                AllOf(HasSubstr("/tokens: "), HasSubstr("delete it, it will be made again")));
  EXPECT_THAT(error_of(good.substr(2)),
              HasSubstr("12 bytes of tokens and checksums, its trailer promises 3 tokens of 2 bytes"));
  EXPECT_THAT(error_of("xx" + good), HasSubstr("16 bytes of tokens"));
  EXPECT_THAT(error_of(std::string(100, 'x')), HasSubstr("not a token file"));
  // No bit of the trailer and of the checksums may flip unseen.
  for (size_t at = 6; at < good.size(); ++at) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_THAT(error_of(flipped), HasSubstr("delete it")) << at;
  }
}

std::vector<int32_t> counting_tokens(int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i % 60000;
  return tokens;
}

// Blocks are 64 KiB: 32768 tokens of two bytes.
TEST(TokenFile, FindsEveryFlippedBitWhenItsBlockIsRead) {
  const TempFolder folder;
  const std::vector<int32_t> tokens = counting_tokens(100'000);
  const std::string good = get_file(write_tokens(folder / "tokens", 60000, tokens));
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    const auto token = static_cast<int64_t>(random() % tokens.size());
    std::string flipped = good;
    char& byte = flipped[static_cast<size_t>(token) * 2 + random() % 2];
    byte = static_cast<char>(byte ^ 1 << random() % 8);
    const TokenFile file(put_file(folder / "tokens", flipped));
    EXPECT_THAT(user_error_of([&] { file.token(token); }),
                AllOf(HasSubstr("do not have the checksum that was written with them"), HasSubstr("delete it")));
    const int64_t elsewhere = (token + 2 * 32768) % 98304;
    EXPECT_EQ(file.token(elsewhere), tokens[static_cast<size_t>(elsewhere)]);
  }
  const TokenFile file(put_file(folder / "tokens", good));
  std::vector<int64_t> all(tokens.size());
  file.copy(0, std::ssize(all), all.data());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), tokens.begin()));
}

TEST(TokenFile, IsAnErrorWhenItShrinksWhileItIsRead) {
  const TempFolder folder;
  const auto path = write_tokens(folder / "tokens", 60000, counting_tokens(100'000));
  const TokenFile file(path);
  EXPECT_EQ(file.token(70), 70);
  std::filesystem::resize_file(path, 4096);
  const std::string lost = "bytes when it was opened, and has lost some of them while it was read";
  EXPECT_THAT(user_error_of([&] { file.token(90'000); }), AllOf(HasSubstr("/tokens"), HasSubstr(lost)));
  // The block had been verified before.
  EXPECT_THAT(user_error_of([&] { file.token(30'000); }), HasSubstr(lost));
}

TEST(TokenFile, IsAnErrorWhereverAndWheneverItIsCut) {
  const TempFolder folder;
  const std::vector<int32_t> tokens = counting_tokens(40'000);  // two blocks
  const auto path = write_tokens(folder / "tokens", 60000, tokens);
  expect_no_zeros_when_cut<std::vector<int64_t>>(path, [&] {
    const TokenFile file(path);
    std::vector<int64_t> all(static_cast<size_t>(file.size()));
    file.copy(0, 30'000, all.data());
    file.copy(30'000, file.size() - 30'000, all.data() + 30'000);
    file.copy(0, 100, all.data());  // of a block that was verified before
    return all;
  });
}

TEST(TokenFile, IsAnErrorOrWholeWhenItIsCutAtRandom) {
  const TempFolder folder;
  const auto path = write_tokens(folder / "tokens", 60000, counting_tokens(1'000'000));
  expect_no_zeros_when_cut_at_random<std::vector<int64_t>>(
      path,
      [&] {
        const TokenFile file(path);
        std::vector<int64_t> all(static_cast<size_t>(file.size()));
        file.copy(0, file.size(), all.data());
        return all;
      },
      testing::rounds(10));
}

TEST(TokenFile, NamesAFileThatCannotBeOpened) {
  const TempFolder folder;
  EXPECT_THAT(user_error_of([&] { TokenFile file(folder / "absent"); }),
              AllOf(HasSubstr("absent"), HasSubstr("No such file")));
  EXPECT_THAT(user_error_of([&] { TokenFile file(folder.path()); }), HasSubstr("it is a folder"));
  EXPECT_THAT(user_error_of([&] { TokenFileWriter writer(folder / "none/tokens", 10, 0); }), HasSubstr("none/tokens"));
}

}  // namespace
}  // namespace plimsoll
