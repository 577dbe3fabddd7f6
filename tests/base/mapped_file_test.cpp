#include "base/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/process.h"
#include "cut_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.data()), static_cast<size_t>(file.size())};
}

TEST(MappedFile, IsAnErrorWhenItIsCutInItsLastPage) {
  const TempFolder folder;
  for (const int64_t bytes : {100, 4096, 10'000}) {
    const auto path = put_file(folder / "a.bin", std::string(static_cast<size_t>(bytes), 'x'));
    const MappedFile file = MappedFile::open(path);
    EXPECT_NO_THROW(file.require_whole());
    std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes - 1));
    EXPECT_EQ(file.data()[bytes - 1], std::byte{0}) << "no signal tells of the rest of a page";
    EXPECT_THAT(user_error_of([&] { file.require_whole(); }),
                AllOf(HasSubstr(path.string()), HasSubstr("it had " + std::to_string(bytes) + " bytes")));
  }
}

TEST(MappedFile, IsAnErrorWhenPagesAreLostThatWereReadBefore) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::open(path);
  EXPECT_EQ(text_of(file), std::string(100'000, 'x'));
  EXPECT_TRUE(file.is_whole());
  std::filesystem::resize_file(path, 4096);
  EXPECT_FALSE(file.is_whole());
  EXPECT_EQ(file.data()[99'999], std::byte{0});
  EXPECT_FALSE(file.is_whole());
}

// Mapped pages count as resident.
TEST(MappedFile, ReadInPiecesItIsNeverResidentAsAWhole) {
  const TempFolder folder;
  constexpr int64_t kBytes = int64_t{64} << 20;
  std::string text(kBytes, 'x');
  text[kBytes - 1] = 'y';
  const auto path = put_file(folder / "a.bin", text);
  text = {};
  const MappedFile file = MappedFile::open(path);
  const int64_t before = resident_memory().now;
  int64_t bytes = 0, most = 0, ends = 0;
  MappedFile::for_each_piece({file.data(), static_cast<size_t>(file.size())}, [&](std::span<const std::byte> piece) {
    bytes += static_cast<int64_t>(piece.size());
    ends += std::ranges::count(piece, static_cast<std::byte>('y'));
    most = std::max(most, resident_memory().now - before);
  });
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(ends, 1);
  EXPECT_LT(most, kBytes / 4);
}

TEST(MappedFile, StaysAnErrorWhenTheFileGrowsAgain) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::open(path);
  std::filesystem::resize_file(path, 99'999);
  EXPECT_FALSE(file.is_whole());
  std::filesystem::resize_file(path, 100'000);
  EXPECT_FALSE(file.is_whole());
}

TEST(MappedFile, IsWholeWhenTheFileIsReplacedOrGrows) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", std::string(5000, 'x'));
  const MappedFile file = MappedFile::open(path);
  std::filesystem::resize_file(path, 50'000);
  EXPECT_TRUE(file.is_whole());
  std::filesystem::rename(put_file(folder / "b.bin", "short"), path);
  EXPECT_TRUE(file.is_whole());
  EXPECT_EQ(text_of(file), std::string(5000, 'x'));
}

TEST(MappedFile, IsAnErrorAtEveryMoment) {
  const TempFolder folder;
  for (const size_t bytes : {1, 4096, 8192, 20'500}) {
    const auto path = put_file(folder / "a.bin", std::string(bytes, 'x'));
    expect_no_zeros_when_cut<std::string>(path, [&] {
      const MappedFile file = MappedFile::open(path);
      if (file.size() != static_cast<int64_t>(bytes)) throw UserError(path.string());
      const std::string text = text_of(file);
      file.require_whole();
      return text;
    });
  }
}

// A process may have 1024 descriptors by default. A model's weights may be in more files.
TEST(MappedFile, RaisesTheLimitOfOpenFilesWhenHalfOfItIsUsed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 1000) GTEST_SKIP() << "the system allows this process few descriptors";
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", "text");
  std::vector<MappedFile> files;
  rlimit now{};
  while (files.size() < 20) files.push_back(MappedFile::open(path));
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 100u) << "a program with few files keeps its limit";
  while (files.size() < 200) files.push_back(MappedFile::open(path));
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_GT(now.rlim_cur, 400u);
  files.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// Other parts of the program may have taken all descriptors.
TEST(MappedFile, RaisesTheLimitOfOpenFilesWhenNoneIsLeft) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", "text");
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int next = 0; (next = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(next);
  EXPECT_NO_THROW(MappedFile::open(path));
  for (const int each : taken) ::close(each);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(MappedFile, ClosesItsDescriptorWithItsLastCopy) {
  const TempFolder folder;
  const auto path = put_file(folder / "a.bin", "text");
  const auto open_descriptors = [&] {
    int count = 0;
    for (int descriptor = 0; descriptor < 1000; ++descriptor) count += is_descriptor_of(path, descriptor);
    return count;
  };
  MappedFile copy;
  {
    const MappedFile file = MappedFile::open(path);
    copy = file;
    EXPECT_EQ(open_descriptors(), 1);
  }
  EXPECT_EQ(open_descriptors(), 1);
  copy = MappedFile::open(put_file(folder / "empty", ""));
  EXPECT_EQ(open_descriptors(), 0);
  EXPECT_TRUE(copy.is_whole());
}

}  // namespace
}  // namespace plimsoll
