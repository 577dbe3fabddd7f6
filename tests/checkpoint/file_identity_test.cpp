#include "checkpoint/file_identity.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>

#include "base/content_hash.h"
#include "cut_files.h"

namespace plimsoll {
namespace {

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
