#include "data/text/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/hash.h"
#include "data/loader.h"
#include "data/text/token_file.h"
#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TextDatasetTest : public ::testing::Test {
 protected:
  DataConfig config(const std::vector<std::filesystem::path>& files, int64_t sequence_length, double validation = 0) {
    DataConfig config;
    config.files = files;
    config.sequence_length = sequence_length;
    config.validation_fraction = validation;
    config.cache_dir = folder_ / "cache/below";
    return config;
  }

  /// Returns the progress of opening it: empty if all was cached.
  std::vector<double> progress_of(const DataConfig& config, const Tokenizer& tokenizer) {
    std::vector<double> fractions;
    TextDataset data(config, tokenizer, [&](double fraction) { fractions.push_back(fraction); });
    return fractions;
  }

  std::vector<std::filesystem::path> token_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache/below"))
      files.push_back(entry.path());
    return files;
  }

  std::string error_of(const DataConfig& config) {
    return user_error_of([&] { TextDataset data(config, *bytes_); });
  }

  TempFolder folder_;
  std::unique_ptr<Tokenizer> bytes_ = make_tokenizer("bytes", {});
};

std::pair<std::vector<int64_t>, std::vector<int64_t>> window_of(const TextDataset& data, Split split, int64_t window) {
  std::vector<int64_t> tokens(static_cast<size_t>(data.sequence_length())), targets(tokens.size());
  data.fill(split, window, tokens.data(), targets.data());
  return {tokens, targets};
}

TEST_F(TextDatasetTest, CutsTheTextIntoWindows) {
  const auto one = put_file(folder_ / "one", "abcd");
  const auto two = put_file(folder_ / "two", "efg");
  const TextDataset data(config({one, two}, 3), *bytes_);  // a b c d END e f g END
  EXPECT_EQ(data.tokens(Split::train), 9);
  EXPECT_EQ(data.tokens(Split::validation), 0);
  EXPECT_EQ(data.windows(Split::train), 2);
  EXPECT_EQ(data.windows(Split::validation), 0);
  EXPECT_EQ(data.vocab_size(), 257);
  EXPECT_THAT(window_of(data, Split::train, 0).first, ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(window_of(data, Split::train, 0).second, ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(window_of(data, Split::train, 1).first, ElementsAre('d', 256, 'e'));  // across the files
  EXPECT_THAT(window_of(data, Split::train, 1).second, ElementsAre(256, 'e', 'f'));
  EXPECT_THROW(window_of(data, Split::train, 2), InternalError);
  EXPECT_THROW(window_of(data, Split::train, -1), InternalError);
  EXPECT_THROW(window_of(data, Split::validation, 0), InternalError);
}

TEST_F(TextDatasetTest, HoldsOutTheEnd) {
  const auto file = put_file(folder_ / "text", "abcdefghijklmnopqrs");  // 20 tokens with the end of text
  const TextDataset data(config({file}, 2, 0.25), *bytes_);
  EXPECT_EQ(data.tokens(Split::train), 15);
  EXPECT_EQ(data.tokens(Split::validation), 5);
  EXPECT_EQ(data.windows(Split::train), 7);
  EXPECT_EQ(data.windows(Split::validation), 2);
  EXPECT_THAT(window_of(data, Split::train, 6).second, ElementsAre('n', 'o'));
  EXPECT_THAT(window_of(data, Split::validation, 0).first, ElementsAre('p', 'q'));
  EXPECT_THAT(window_of(data, Split::validation, 1).second, ElementsAre('s', 256));
}

TEST_F(TextDatasetTest, WindowsAreTheTokensForAnySizes) {
  SplitMix64 random(1);
  for (int round = 0; round < 15; ++round) {
    std::vector<std::filesystem::path> files;
    std::vector<int64_t> expected;
    for (uint64_t f = 0; f <= random.below(5); ++f) {
      std::string text;
      for (uint64_t i = 0; i <= random.below(30); ++i) text += static_cast<char>(random.next());
      files.push_back(put_file(folder_ / ("text" + std::to_string(round) + "-" + std::to_string(f)), text));
      for (unsigned char c : text) expected.push_back(c);
      expected.push_back(256);
    }
    const double fraction = static_cast<double>(random.below(50)) / 100;
    const TextDataset data(config(files, 1, fraction), *bytes_);
    const auto length = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(data.tokens(Split::train)) - 1));
    const TextDataset windows(config(files, length, fraction), *bytes_);
    int64_t begin = 0;
    for (Split split : {Split::train, Split::validation}) {
      const int64_t end = begin + windows.tokens(split);
      int64_t count = 0;
      for (int64_t at = begin; at + length + 1 <= end; at += length, ++count) {
        const auto [tokens, targets] = window_of(windows, split, count);
        ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin() + at));
        ASSERT_TRUE(std::equal(targets.begin(), targets.end(), expected.begin() + at + 1));
      }
      ASSERT_EQ(windows.windows(split), count);
      begin = end;
    }
    ASSERT_EQ(begin, std::ssize(expected));
  }
}

TEST_F(TextDatasetTest, TokenizesEachFileOnce) {
  const auto one = put_file(folder_ / "one", "some text");
  const auto two = put_file(folder_ / "two", "other text");
  const std::vector<double> progress = progress_of(config({one, two, one}, 2), *bytes_);
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(progress.front(), 0);
  EXPECT_EQ(progress.back(), 1);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(token_files().size(), 2u);
  EXPECT_THAT(progress_of(config({one, two}, 2), *bytes_), IsEmpty());
  EXPECT_THAT(progress_of(config({two}, 5, 0.3), *bytes_), IsEmpty());
}

TEST_F(TextDatasetTest, TokenizesAgainWhatHasChanged) {
  const auto file = put_file(folder_ / "text", "some text");
  progress_of(config({file}, 2), *bytes_);
  put_file(file, "less");
  EXPECT_EQ(TextDataset(config({file}, 2), *bytes_).tokens(Split::train), 5);
  // The file has the same length, but was changed at another time.
  put_file(file, "more");
  std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::hours(1));
  EXPECT_EQ(window_of(TextDataset(config({file}, 2), *bytes_), Split::train, 0).first[0], 'm');
  // With another tokenizer.
  const auto gpt2 = make_tokenizer("gpt2", put_file(folder_ / "ranks", rank_file({"mo", "re"})));
  EXPECT_THAT(window_of(TextDataset(config({file}, 2), *gpt2), Split::train, 0).first, ElementsAre(256, 257));
}

TEST_F(TextDatasetTest, TokenizesLongFilesBlockByBlock) {
  const auto gpt2 = make_tokenizer("gpt2", put_file(folder_ / "ranks", rank_file({"lo", "low", " low", "  ", "\n\n"})));
  std::string text;
  SplitMix64 random(1);
  constexpr std::string_view words[] = {"low", " low", "  ", "\n", "\n\n", "lo", "\u3000", "é", "\xff"};
  while (text.size() < 9'000'000) text += words[random.below(std::size(words))];
  const TextDataset data(config({put_file(folder_ / "text", text)}, 1000), *gpt2);
  const std::vector<int32_t> expected = gpt2->encode(text);
  ASSERT_EQ(data.tokens(Split::train), std::ssize(expected) + 1);
  for (int64_t window = 0; window < data.windows(Split::train); ++window)
    ASSERT_TRUE(std::ranges::equal(window_of(data, Split::train, window).first,
                                   std::span(expected).subspan(static_cast<size_t>(window) * 1000, 1000)));
}

// A packed text and one with a byte order mark have the tokens of the plain text.
TEST_F(TextDatasetTest, UnpacksTextAndSkipsItsMark) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + " words ";
  const auto tokens_of = [&](const std::filesystem::path& file) {
    const TextDataset data(config({file}, 100), *bytes_);
    std::vector<int64_t> all;
    for (int64_t w = 0; w < data.windows(Split::train); ++w) {
      const auto window = window_of(data, Split::train, w).first;
      all.insert(all.end(), window.begin(), window.end());
    }
    return std::pair(data.tokens(Split::train), all);
  };
  const auto plain = tokens_of(put_file(folder_ / "a.txt", text));
  EXPECT_EQ(plain.first, std::ssize(text) + 1);
  EXPECT_EQ(tokens_of(put_file(folder_ / "b.txt", "\xEF\xBB\xBF" + text)), plain);
  gzFile packed = gzopen((folder_ / "c.txt.gz").c_str(), "wb");
  gzwrite(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
  EXPECT_EQ(tokens_of(folder_ / "c.txt.gz"), plain);
  EXPECT_THAT(progress_of(config({folder_ / "c.txt.gz", folder_ / "b.txt"}, 100), *bytes_), IsEmpty());
}

// Also if an earlier commit has tokenized the file.
TEST_F(TextDatasetTest, RefusesFilesOfOtherKinds) {
  const std::string array = "\x93NUMPY\1" + std::string(500, 'x');
  const auto file = put_file(folder_ / "t.npy", array), text = put_file(folder_ / "t.txt", std::string(500, 'x'));
  const TextFile looked = TextFile::look_at(file);
  const uint64_t key = token_cache_key(looked, *bytes_);
  std::filesystem::create_directories(folder_ / "cache/below");
  TokenFileWriter writer(token_cache_file(folder_ / "cache/below", looked, key), bytes_->vocab_size(), key);
  const std::vector<int32_t> tokens(501, 'x');
  writer.append(tokens);
  writer.finish();
  EXPECT_THAT(error_of(config({file}, 4)), HasSubstr("t.npy is a NumPy array (.npy); allowed: text in UTF-8"));
  DataConfig both = config({file, text}, 4);
  both.skip_bad = true;
  const TextDataset data(both, *bytes_);
  EXPECT_EQ(data.tokens(Split::train), 501);
  ASSERT_EQ(data.skipped().size(), 1u);
  EXPECT_THAT(data.skipped()[0], HasSubstr("t.npy is a NumPy array"));
}

TEST_F(TextDatasetTest, NotesTextInAnotherEncoding) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto file = put_file(folder_ / "t.txt", "caf\xe9 au lait");
  for (int round = 0; round < 2; ++round) EXPECT_EQ(TextDataset(config({file}, 4), *bytes_).tokens(Split::train), 13);
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("t.txt: byte 0xe9 at 3 is no UTF-8")));
}

TEST_F(TextDatasetTest, NamesFilesThatCannotBeUsed) {
  const auto good = put_file(folder_ / "good", "some text");
  const auto empty = put_file(folder_ / "empty", "");
  EXPECT_THAT(error_of(config({}, 2)), HasSubstr("data.files"));
  EXPECT_THAT(error_of(config({good, folder_ / "absent"}, 2)), HasSubstr("absent does not exist"));
  EXPECT_THAT(error_of(config({good, folder_.path()}, 2)), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_of(config({good, "/dev/null"}, 2)), HasSubstr("/dev/null is not a regular file"));
  EXPECT_THAT(error_of(config({good, empty}, 2)), HasSubstr("empty is empty"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));  // all files are looked at before any is tokenized
  DataConfig no_cache = config({good}, 2);
  no_cache.cache_dir = good / "cache";
  EXPECT_THAT(error_of(no_cache), HasSubstr("good/cache"));
}

TEST_F(TextDatasetTest, RefusesTextShorterThanAWindow) {
  const auto file = put_file(folder_ / "text", "123456789");  // 10 tokens
  EXPECT_NO_THROW(TextDataset(config({file}, 9), *bytes_));
  EXPECT_THAT(error_of(config({file}, 10)), AllOf(HasSubstr("has 10 tokens"), HasSubstr("data.sequence_length 10")));
  EXPECT_THAT(error_of(config({file}, 9, 0.1)), HasSubstr("9 of them for training"));
  EXPECT_THAT(error_of(config({file}, std::numeric_limits<int64_t>::max())),
              HasSubstr("set a smaller data.sequence_length"));
  EXPECT_THAT(error_of(config({file}, 0)), HasSubstr("data.sequence_length"));
  EXPECT_THAT(error_of(config({file}, 2, 0.6)), HasSubstr("data.validation_fraction"));
}

TEST_F(TextDatasetTest, SaysWhatToDoWithDamagedTokens) {
  const auto file = put_file(folder_ / "text", "some text");
  progress_of(config({file}, 2), *bytes_);
  const std::filesystem::path tokens = token_files().at(0);
  const std::string contents = get_file(tokens);
  put_file(tokens, contents.substr(0, contents.size() / 2));
  EXPECT_THAT(error_of(config({file}, 2)), AllOf(HasSubstr(tokens.string()), HasSubstr("delete it")));
  TokenFileWriter writer(tokens, 257, 1);
  writer.append(std::vector<int32_t>{1, 2, 3});
  writer.finish();
  EXPECT_THAT(error_of(config({file}, 2)), AllOf(HasSubstr("made from another text"), HasSubstr("delete it")));
  std::filesystem::remove(tokens);
  EXPECT_EQ(TextDataset(config({file}, 2), *bytes_).tokens(Split::train), 10);
}

std::vector<int64_t> numbers_of(const BatchField& field) {
  std::vector<int64_t> numbers(field.bytes.size() / 8);
  std::memcpy(numbers.data(), field.bytes.data(), field.bytes.size());
  return numbers;
}

TEST_F(TextDatasetTest, MakesBatchesInTheGivenOrder) {
  const TextDataset data(config({put_file(folder_ / "text", "abcdefghijklmnopqrs")}, 3), *bytes_);
  const WindowOrder order(data.windows(Split::train), 1, true);
  const Batch batch = make_text_batch(data, order, Split::train, 4, 5);  // 6 windows: on into the second epoch
  EXPECT_EQ(batch.position, 4);
  EXPECT_EQ(batch.samples, 5);
  ASSERT_EQ(batch.fields.size(), 2u);
  EXPECT_EQ(batch.fields[0].name, "tokens");
  EXPECT_EQ(batch.fields[1].name, "targets");
  for (const BatchField& field : batch.fields) {
    EXPECT_EQ(field.dtype, DType::int64);
    EXPECT_THAT(field.sizes, ElementsAre(5, 3));
    ASSERT_EQ(field.bytes.size(), 5u * 3 * 8);
  }
  for (int64_t i = 0; i < 5; ++i) {
    const auto [tokens, targets] = window_of(data, Split::train, order.index(4 + i));
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), numbers_of(batch.fields[0]).begin() + i * 3));
    EXPECT_TRUE(std::equal(targets.begin(), targets.end(), numbers_of(batch.fields[1]).begin() + i * 3));
  }
  EXPECT_THROW(make_text_batch(data, WindowOrder(5, 1, true), Split::train, 0, 1), InternalError);
}

TEST_F(TextDatasetTest, BatchesDoNotDependOnWorkersOrStart) {
  std::string text;
  SplitMix64 random(1);
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(random.next());
  const TextDataset data(config({put_file(folder_ / "text", text)}, 7), *bytes_);
  const auto batches = [&](int64_t workers, int64_t start, int64_t count) {
    const WindowOrder order(data.windows(Split::train), 3, true);
    Loader loader(
        [&](int64_t first, int64_t samples) { return make_text_batch(data, order, Split::train, first, samples); },
        {.num_workers = workers, .prefetch = 3, .samples_per_batch = 4, .start = start});
    std::vector<std::vector<int64_t>> all;
    for (int64_t i = 0; i < count; ++i)
      for (const BatchField& field : loader.next().fields) all.push_back(numbers_of(field));
    return all;
  };
  const auto expected = batches(0, 0, 120);  // more than three epochs
  EXPECT_EQ(batches(1, 0, 120), expected);
  EXPECT_EQ(batches(4, 0, 120), expected);
  for (int64_t skipped : {1, 35, 36, 90}) {
    const auto rest = batches(4, skipped * 4, 120 - skipped);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + skipped * 2)) << skipped;
  }
}

}  // namespace
}  // namespace plimsoll
