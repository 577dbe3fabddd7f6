#include "device/disk_arena.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <vector>

#include "cut_files.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::byte> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

TEST(DiskArena, HasNoNameAndKeepsWhatIsWritten) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 3 * MiB + 100);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto bytes = random_bytes(static_cast<size_t>(arena.bytes()), 1);
  std::copy(bytes.begin(), bytes.end(), arena.data());
  arena.evict(0, arena.bytes(), /*written=*/true);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), arena.data()));
}

/// Cuts the file of the arena in `folder`. It has no name; another program of the user still reaches it through /proc.
void cut_arena(const TempFolder& folder, int64_t size) {
  bool cut = false;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with(folder.path().string() + "/plimsoll-"))
      cut = ::truncate(entry.path().c_str(), size) == 0;
  }
  ASSERT_TRUE(cut);
}

void expect_cut_is_told(const TempFolder& folder, const std::function<void()>& check) {
  EXPECT_THAT(user_error_of(check), AllOf(HasSubstr(folder.path().string()), HasSubstr("could not be read again")));
}

TEST(DiskArena, IsAnErrorWhereverItsFileIsCutShort) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto bytes = random_bytes(static_cast<size_t>(3 * page + 100), 5);  // the file has whole pages
  for (const int64_t size : cut_sizes(4 * page))
    for (const bool evicted : {false, true}) {
      SCOPED_TRACE(fmt::format("{} bytes, evicted: {}", size, evicted));
      const TempFolder folder;
      DiskArena arena(folder.path(), std::ssize(bytes));
      std::copy(bytes.begin(), bytes.end(), arena.data());
      if (evicted) arena.evict(0, arena.bytes(), /*written=*/true);
      arena.require_written();
      const std::vector<std::byte> taken(arena.data(), arena.data() + arena.bytes());
      EXPECT_EQ(taken, bytes);
      cut_arena(folder, size);
      EXPECT_EQ(taken, bytes);
      expect_cut_is_told(folder, [&] { arena.require_written(); });
      EXPECT_EQ(arena.data()[size], std::byte{0});
      expect_cut_is_told(folder, [&] { arena.require_written(); });
      expect_cut_is_told(folder, [&] { arena.grow(1 * MiB); });
    }
}

TEST(DiskArena, IsAnErrorWhenItsFileIsCutBeforeACheck) {
  const TempFolder folder;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  DiskArena arena(folder.path(), 100);
  arena.grow(2 * page + 1);
  arena.require_written();
  const MomentHook hook([&](MappingMoment moment, int descriptor) {
    const bool cut = moment != MappingMoment::check || ::ftruncate(descriptor, 3 * page - 1) == 0;
    EXPECT_TRUE(cut);
  });
  expect_cut_is_told(folder, [&] { arena.require_written(); });
}

TEST(DiskArena, AStepGoesOnWhenItsFileIsCutShort) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 1 * MiB);
  const auto bytes = random_bytes(1 << 20, 5);
  std::copy(bytes.begin(), bytes.end(), arena.data());
  arena.evict(0, arena.bytes(), /*written=*/true);
  arena.require_written();
  cut_arena(folder, 8192);
  EXPECT_EQ(arena.data()[8191], bytes[8191]);
  EXPECT_EQ(arena.data()[500'000], std::byte{0});
  arena.data()[500'000] = std::byte{7};  // a step goes on until the next check
  expect_cut_is_told(folder, [&] { arena.require_written(); });
}

// Ranges that share pages, in any order.
TEST(DiskArena, PartsThatAreLetGoKeepTheirNeighbors) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 1 * MiB);
  auto expected = random_bytes(1 << 20, 2);
  std::copy(expected.begin(), expected.end(), arena.data());
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto offset = static_cast<int64_t>(random() % (1 << 20)) / 64 * 64;
    const auto bytes = std::min<int64_t>(1 + static_cast<int64_t>(random() % 20000), (1 << 20) - offset);
    const bool written = random() % 2 == 0;
    if (written) {
      const auto fresh = random_bytes(static_cast<size_t>(bytes), round);
      std::copy(fresh.begin(), fresh.end(), arena.data() + offset);
      std::copy(fresh.begin(), fresh.end(), expected.begin() + offset);
    }
    arena.evict(offset, bytes, written);
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), arena.data()));
}

TEST(DiskArena, WhatIsLetGoIsNotInMemory) {
  const TempFolder folder;
  struct statfs status {};
  if (statfs(folder.path().c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC)
    GTEST_SKIP() << "the folder for temporary files lies in memory";
  DiskArena arena(folder.path(), 16 * MiB);
  std::fill_n(arena.data(), arena.bytes(), std::byte{7});
  EXPECT_EQ(arena.resident_bytes(), 16 * MiB);
  arena.evict(0, 12 * MiB, /*written=*/true);
  EXPECT_LE(arena.resident_bytes(), 4 * MiB);
  EXPECT_EQ(arena.data()[0], std::byte{7});
}

TEST(DiskArena, GrowsAndKeepsItsAddress) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 1000, 10 * MiB);
  std::fill_n(arena.data(), 1000, std::byte{9});
  const std::byte* const place = arena.data();
  arena.grow(10 * MiB);
  EXPECT_EQ(arena.data(), place);
  EXPECT_EQ(arena.bytes(), 10 * MiB);
  EXPECT_EQ(std::count(place, place + 1000, std::byte{9}), 1000);
  std::fill_n(arena.data(), arena.bytes(), std::byte{5});
  arena.grow(5);
  EXPECT_EQ(arena.bytes(), 10 * MiB);
}

TEST(DiskArena, WithoutRoomItSaysHowMuchThereIs) {
  const TempFolder folder;
  struct statvfs status {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &status), 0);
  const auto available = static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  try {
    const DiskArena arena(folder.path(), 2 * available + GiB);
    FAIL() << "taken";
  } catch (const DiskUnavailable& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
    EXPECT_EQ(error.requested_bytes(), 2 * available + GiB);
    EXPECT_GE(error.available(), 0);
    EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(error.requested_bytes())));
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(error.available()) + " are free"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// A scope with a limit on the size of files (ulimit -f), which counts the signals for files beyond it.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signals_ = 0;
    handler_ = std::signal(SIGXFSZ, [](int) { signals_ = signals_ + 1; });
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  static int signals() { return signals_; }

 private:
  static inline volatile std::sig_atomic_t signals_ = 0;
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

// The signal would end the program.
TEST(DiskArena, BeyondTheLimitOfFilesIsAnErrorAndNoSignal) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 1000, 10 * MiB);
  std::fill_n(arena.data(), 1000, std::byte{9});
  const FileSizeLimit limit(1 * MiB);
  EXPECT_THAT(user_error_of([&] { arena.grow(3 * MiB); }), HasSubstr(std::strerror(EFBIG)));
  EXPECT_EQ(limit.signals(), 0);
  EXPECT_EQ(arena.bytes(), 1000);
  EXPECT_EQ(std::count(arena.data(), arena.data() + 1000, std::byte{9}), 1000);
  arena.require_written();
}

// A file system that cannot reserve blocks would write them until the disk is full. The limit on the size of files
// shows whether the file grows: it would be the error.
TEST(DiskArena, WithoutRoomItsFileDoesNotGrow) {
  const TempFolder folder;
  struct statvfs status {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &status), 0);
  const auto available = static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  const FileSizeLimit limit(1 * MiB);
  EXPECT_THAT(user_error_of([&] { const DiskArena arena(folder.path(), 2 * available + GiB); }),
              HasSubstr(std::strerror(ENOSPC)));
}

// A disk that fails during a write is hard to provide; a page without a mapping causes the same error.
TEST(DiskArena, WhatDidNotReachTheDiskIsTold) {
  const TempFolder folder;
  DiskArena arena(folder.path(), 1 * MiB);
  std::fill_n(arena.data(), arena.bytes(), std::byte{3});
  arena.evict(0, arena.bytes(), /*written=*/true);
  EXPECT_NO_THROW(arena.require_written());
  const int64_t page = sysconf(_SC_PAGESIZE);
  munmap(arena.data(), page);
  arena.evict(0, page, /*written=*/true);
  mmap(arena.data(), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  const auto expect_told = [&] {
    try {
      arena.require_written();
      ADD_FAILURE() << "not told";
    } catch (const UserError& error) {
      EXPECT_EQ(error.kind(), UserError::Kind::failure);
      EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
      EXPECT_THAT(error.what(), HasSubstr(std::strerror(ENOMEM)));
    }
  };
  expect_told();
  arena.evict(page, page, /*written=*/true);  // a later success does not repair it
  expect_told();
}

TEST(DiskArena, AFolderThatIsNotThereIsRefused) {
  const TempFolder folder;
  try {
    const DiskArena arena(folder / "nowhere", 1000);
    FAIL() << "taken";
  } catch (const UserError& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::usage);
    EXPECT_THAT(error.what(), HasSubstr("nowhere"));
    EXPECT_THAT(error.what(), HasSubstr("disk_path"));
  }
}

}  // namespace
}  // namespace plimsoll
