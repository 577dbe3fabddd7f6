#include "checkpoint/data_facts.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "cut_files.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DataFileFact text_fact(const std::string& name, uint64_t hash, int64_t bytes = 10) {
  return {.key = "data.files", .name = name, .identity = {.files = 1, .bytes = bytes, .hash = hash}};
}

std::vector<std::string> file_lines(const std::vector<DataFileFact>& expected, const std::vector<DataFileFact>& ours) {
  const std::map<std::string, std::string> none;
  const DataFacts before{.files = expected}, now{.files = ours};
  return data_differences({none, &before}, {none, &now});
}

TEST(DataFacts, OfMovedAndRenamedFilesAreTheSame) {
  EXPECT_THAT(file_lines({text_fact("a", 1), text_fact("b", 2)}, {text_fact("c", 1), text_fact("d", 2)}), IsEmpty());
}

TEST(DataFacts, NameEachFileThatDiffers) {
  const DataFileFact a = text_fact("a", 1), b = text_fact("b", 2), c = text_fact("c", 3);
  EXPECT_THAT(file_lines({a, b}, {a, text_fact("b", 4, 11)}),
              ElementsAre("data.files: b had 10 bytes (hash 0000000000000002), now has 11 bytes (hash "
                          "0000000000000004)"));
  EXPECT_THAT(file_lines({a, b}, {a, c}), ElementsAre("data.files: b with 10 bytes (hash 0000000000000002) is now c "
                                                      "with 10 bytes (hash 0000000000000003)"));
  EXPECT_THAT(file_lines({a}, {a, c}),
              ElementsAre("data.files: c with 10 bytes (hash 0000000000000003) was not there"));
  EXPECT_THAT(file_lines({a, b, a}, {a, b}),
              ElementsAre("data.files: a with 10 bytes (hash 0000000000000001) is not there now"));
  EXPECT_THAT(file_lines({a, b}, {b, a}), ElementsAre("data.files: the order was a, b and is b, a"));
}

TEST(DataFacts, CountANameThatIsACaption) {
  DataFileFact a = text_fact("a dog.mp4", 1), b = text_fact("a cat.mp4", 1);
  a.is_name_data = b.is_name_data = true;
  EXPECT_THAT(file_lines({a}, {b}),
              ElementsAre("data.files: the name a dog.mp4, which is a caption, is now a cat.mp4"));
}

TEST(DataFacts, ListAFewFilesAndCountTheOthers) {
  std::vector<DataFileFact> expected, ours;
  for (uint64_t i = 0; i < 20; ++i) {
    expected.push_back(text_fact(std::to_string(i), i));
    ours.push_back(text_fact(std::to_string(i), i + 100));
  }
  const auto lines = file_lines(expected, ours);
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_EQ(lines.back(), "data.files: and 12 more files differ");
}

TEST(DataFacts, NameEachSettingThatDiffers) {
  const std::map<std::string, std::string> before{
      {"data.augment", "0.1"}, {"data.fmri", "a.nii"}, {"model.x", "1"}, {"seed", "0"}, {"data.prompt", "x"}};
  const std::map<std::string, std::string> now{
      {"data.test_fraction", "0.2"}, {"data.fmri", "b.nii"}, {"model.x", "2"}, {"seed", "7"}, {"data.prompt", ""}};
  EXPECT_THAT(data_differences({before}, {now}),
              ElementsAre("data.augment was 0.1 and is not set", "data.fmri was a.nii and is b.nii",
                          "data.prompt was x and is (none)", "data.test_fraction was not set and is 0.2",
                          "seed was 0 and is 7"));
  // Facts overrule the origin, which has the name of a file whose bytes are compared.
  const std::vector<DataFileFact> files{{.key = "data.fmri", .name = "a.nii", .identity = {}}};
  const DataFacts expected{.files = files, .settings = {{"data.prompt", "y"}}};
  const DataFacts ours{.files = files, .settings = {{"data.prompt", "y"}, {"data.shuffle", "false"}}};
  EXPECT_THAT(data_differences({before, &expected}, {now, &ours}),
              ElementsAre("data.augment was 0.1 and is not set", "data.shuffle was not set and is false",
                          "data.test_fraction was not set and is 0.2", "seed was 0 and is 7"));
  EXPECT_THAT(data_differences({before, &expected}, {before, nullptr}), IsEmpty());
}

TEST(DataFacts, ShowWhereLongValuesDiffer) {
  const std::string start(100, 'x');
  const std::map<std::string, std::string> before{{"data.prompt", start + "left"}}, now{{"data.prompt", start}};
  EXPECT_THAT(data_differences({before}, {now}),
              ElementsAre("data.prompt was ..." + std::string(20, 'x') + "left and is ..." + std::string(20, 'x')));
}

TEST(DataFacts, ShowNoControlCharactersOfAFile) {
  const std::map<std::string, std::string> before{{"data.\x1b[2J", "a\nb"}}, now;
  EXPECT_THAT(data_differences({before}, {now}), ElementsAre("data.?[2J was a?b and is not set"));
}

TEST(DataFacts, AreReadAsTheyWereWritten) {
  DataFileFact named = text_fact("a dog.mp4", ~uint64_t{0});
  named.is_name_data = true;
  const DataFacts facts{.files = {text_fact("t", 7), named}, .settings = {{"data.shuffle", "true"}}};
  EXPECT_EQ(parse_data_facts(nlohmann::json::parse(json_of(facts).dump())), facts);
}

using ::testing::AllOf;
using ::testing::HasSubstr;

uint64_t hash_of(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text)));
}

/// Returns bytes that do not repeat within a file of the tests.
std::string distinct_bytes(int64_t count) {
  std::string text;
  for (uint32_t i = 0; std::ssize(text) < count; ++i) text += std::to_string(i * 2654435761u) + " ";
  text.resize(static_cast<size_t>(count));
  return text;
}

TEST(FileIdentity, IsThatOfTheBytesWhereverTheFileIs) {
  const TempFolder folder;
  const FileIdentity first = identity_of_file(put_file(folder / "a.txt", "ships"));
  EXPECT_EQ(first, (FileIdentity{.files = 1, .bytes = 5, .hash = hash_of("ships")}));
  std::filesystem::create_directory(folder / "moved");
  std::filesystem::rename(folder / "a.txt", folder / "moved" / "b.txt");
  EXPECT_EQ(identity_of_file(folder / "moved" / "b.txt"), first);
  EXPECT_NE(identity_of_file(put_file(folder / "a.txt", "shipt")), first);
  EXPECT_EQ(identity_of_file(put_file(folder / "none", "")),
            (FileIdentity{.files = 1, .bytes = 0, .hash = hash_of("")}));
}

TEST(FileIdentity, OfASmallFileIsThatOfEveryByte) {
  const TempFolder folder;
  std::string text = distinct_bytes(kMaxWholeHashBytes);
  const FileIdentity whole = identity_of_file(put_file(folder / "a", text));
  EXPECT_EQ(whole.hash, hash_of(text));
  text[kHashedBlockBytes + 17] ^= 1;
  EXPECT_NE(identity_of_file(put_file(folder / "a", text)), whole);
}

// The rule of the header, and its limit: the bytes between the blocks do not count.
TEST(FileIdentity, OfALargeFileIsThatOfItsBlocks) {
  const TempFolder folder;
  const int64_t size = 3 * kMaxWholeHashBytes + 12345;
  std::string text = distinct_bytes(size);
  std::string blocks;
  const auto begin_of = [&](int64_t i) { return i * (size - kHashedBlockBytes) / (kHashedBlocks - 1); };
  for (int64_t i = 0; i < kHashedBlocks; ++i)
    blocks += text.substr(static_cast<size_t>(begin_of(i)), kHashedBlockBytes);
  const FileIdentity whole = identity_of_file(put_file(folder / "a", text));
  EXPECT_EQ(whole, (FileIdentity{.files = 1, .bytes = size, .hash = hash_of(blocks)}));

  const auto with_change_at = [&](int64_t at) {
    std::string changed = text;
    changed[static_cast<size_t>(at)] ^= 1;
    return identity_of_file(put_file(folder / "a", changed));
  };
  for (const int64_t at : {int64_t{0}, begin_of(1), begin_of(40) + kHashedBlockBytes - 1, size - 1})
    EXPECT_NE(with_change_at(at), whole) << at;
  EXPECT_EQ(with_change_at(begin_of(1) - 1), whole);
  EXPECT_NE(identity_of_file(put_file(folder / "a", text + "x")), whole) << "the size counts";
}

TEST(FileIdentity, OfAFolderIsThatOfItsFilesByName) {
  const TempFolder folder, other;
  for (const TempFolder* each : {&folder, &other}) std::filesystem::create_directory(*each / "left");
  // Another order on the disk.
  put_file(folder / "b.png", "2");
  put_file(folder / "a.png", "1");
  put_file(folder / "left" / "c.png", "3");
  put_file(other / "left" / "c.png", "3");
  put_file(other / "a.png", "1");
  put_file(other / "b.png", "2");
  const FileIdentity all = identity_of_folder(folder.path());
  EXPECT_EQ(all.files, 3);
  EXPECT_EQ(all.bytes, 3);
  EXPECT_EQ(identity_of_folder(other.path()), all);
  EXPECT_EQ(identity_of_folder(other.path() / ""), all) << "a slash at the end is no other folder";

  put_file(other / ".DS_Store", "hidden");
  std::filesystem::create_directory(other / ".cache");
  put_file(other / ".cache" / "d.png", "4");
  EXPECT_EQ(identity_of_folder(other.path()), all) << "hidden files are no data";
  put_file(other / "notes.txt", "n");
  EXPECT_NE(identity_of_folder(other.path()), all);
  EXPECT_EQ(identity_of_folder(other.path(), [](const auto& file) { return file.extension() == ".png"; }), all);

  std::filesystem::rename(folder / "b.png", folder / "d.png");
  EXPECT_NE(identity_of_folder(folder.path()), all) << "relative names count";
  std::filesystem::rename(folder / "d.png", folder / "b.png");
  EXPECT_EQ(identity_of_folder(folder.path()), all);
  put_file(folder / "b.png", "7");
  EXPECT_NE(identity_of_folder(folder.path()), all) << "bytes count";
}

TEST(FileIdentity, OfSeveralFilesHasAnOrder) {
  const FileIdentity a{.files = 1, .bytes = 2, .hash = 3}, b{.files = 1, .bytes = 4, .hash = 5};
  EXPECT_EQ(identity_of_all({a, b}), identity_of_all({a, b}));
  EXPECT_NE(identity_of_all({a, b}), identity_of_all({b, a}));
  EXPECT_EQ(identity_of_all({a, b}).files, 2);
  EXPECT_EQ(identity_of_all({a, b}).bytes, 6);
}

TEST(FileIdentity, NamesWhatCannotBeRead) {
  const TempFolder folder;
  EXPECT_THAT(user_error_of([&] { identity_of_file(folder / "gone.txt"); }),
              AllOf(HasSubstr("cannot read"), HasSubstr("gone.txt")));
  EXPECT_THAT(user_error_of([&] { identity_of_file(folder.path()); }),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("it is a folder")));
  EXPECT_THAT(user_error_of([&] { identity_of_folder(folder / "none"); }),
              AllOf(HasSubstr("cannot read the folder"), HasSubstr("none")));
}

TEST(FileIdentity, NamesAFileThatIsCutMeanwhile) {
  const TempFolder folder;
  const auto file = put_file(folder / "a.txt", distinct_bytes(100'000));
  const MomentHook cut([&](MappingMoment, int descriptor) {
    if (is_descriptor_of(file, descriptor)) std::filesystem::resize_file(file, 10);
  });
  EXPECT_THAT(user_error_of([&] { identity_of_file(file); }),
              AllOf(HasSubstr(file.string()), HasSubstr("it had 100000 bytes")));
}

TEST(FileIdentity, IsShownWithItsSizeAndHash) {
  EXPECT_EQ(identity_text({.files = 1, .bytes = 120000, .hash = 0x1a2b}), "120000 bytes (hash 0000000000001a2b)");
  EXPECT_EQ(identity_text({.files = 8, .bytes = 64, .hash = 1}), "8 files of 64 bytes (hash 0000000000000001)");
}

}  // namespace
}  // namespace plimsoll
