// Declares checks of readers of mapped files that another program cuts short: an error with the file's name or the
// whole values, at every moment, and no zeros.
#pragma once

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "plimsoll/error.h"
#include "test_files.h"

namespace plimsoll {

/// A function that every guard calls at its moments (MappingMoment) while this object exists.
class MomentHook {
 public:
  explicit MomentHook(std::function<void(MappingMoment moment, int descriptor)> hook) : hook_(std::move(hook)) {
    mapping_hook = &hook_;
  }
  ~MomentHook() { mapping_hook = nullptr; }
  MomentHook(const MomentHook&) = delete;
  MomentHook& operator=(const MomentHook&) = delete;

 private:
  const std::function<void(MappingMoment, int)> hook_;
};

/// Returns true if the descriptor is that of `file`.
inline bool is_descriptor_of(const std::filesystem::path& file, int descriptor) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

/// Returns sizes to which a file of `bytes` bytes is cut: nothing, the middle, beside edges of pages, within the last
/// page, all bytes but one.
inline std::vector<int64_t> cut_sizes(int64_t bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE), last = (bytes - 1) / page * page;
  std::set<int64_t> sizes;
  for (const int64_t size : {int64_t{0}, int64_t{1}, page - 1, page, page + 1, bytes / 2, last - 1, last, last + 1,
                             (last + bytes) / 2, bytes - 1})
    if (size >= 0 && size < bytes) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

/// Writes the contents back to a file that was cut. put_file() empties the file first, which makes ext4 write it to the
/// disk at once.
inline void restore_file(const std::filesystem::path& file, std::string_view contents) {
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).write(contents.data(), std::ssize(contents));
}

/// Expects `read`, which opens `file` and takes its values, to return `expected` or to throw a UserError that names the
/// file. Returns true if it returned.
template <typename Value>
bool expect_whole_or_error(const std::filesystem::path& file, const Value& expected,
                           const std::function<Value()>& read) {
  try {
    const Value value = read();
    EXPECT_TRUE(value == expected) << "lost bytes were read as others";
    return true;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(file.string()));
    return false;
  }
}

/// Cuts `file` to each of cut_sizes(): before it is read, at the moments of a read, and after it. Of many moments,
/// about 20 are tried. `read` opens the file and returns its values, without parts that lie in the file.
template <typename Value>
void expect_no_zeros_when_cut(const std::filesystem::path& file, const std::function<Value()>& read) {
  const std::string bytes = get_file(file);
  std::vector<MappingMoment> moments;
  Value expected;
  {
    const MomentHook hook([&](MappingMoment moment, int descriptor) {
      if (is_descriptor_of(file, descriptor)) moments.push_back(moment);
    });
    expected = read();
  }
  ASSERT_GE(moments.size(), 3u) << "the file was not mapped and checked";
  for (const int64_t size : cut_sizes(std::ssize(bytes))) {
    const auto cut = [&] { std::filesystem::resize_file(file, static_cast<uintmax_t>(size)); };
    SCOPED_TRACE("cut to " + std::to_string(size) + " of " + std::to_string(bytes.size()) + " bytes");
    {
      SCOPED_TRACE("before it is read");
      cut();
      expect_whole_or_error(file, expected, read);  // some formats fill the end up
      restore_file(file, bytes);
    }
    for (size_t at = 0; at < moments.size(); at += at < 5 || at + 6 > moments.size() ? 1 : moments.size() / 10) {
      SCOPED_TRACE("at moment " + std::to_string(at) + " of " + std::to_string(moments.size()));
      size_t now = 0;
      bool whole = false;
      {
        const MomentHook hook([&](MappingMoment, int descriptor) {
          if (is_descriptor_of(file, descriptor) && now++ == at) cut();
        });
        whole = expect_whole_or_error(file, expected, read);
      }
      EXPECT_GT(now, at) << "the file was not cut";
      EXPECT_TRUE(!whole || at + 1 == moments.size()) << "a later check did not notice the loss";
      restore_file(file, bytes);
    }
    SCOPED_TRACE("after it was read");
    const Value value = read();
    cut();
    EXPECT_TRUE(value == expected);
    restore_file(file, bytes);
  }
}

/// Reads `file` while another thread cuts it, `rounds` times: to a random size, at a random time.
template <typename Value>
void expect_no_zeros_when_cut_at_random(const std::filesystem::path& file, const std::function<Value()>& read,
                                        int rounds) {
  static unsigned seed = 0;  // another one for each call, and for each repetition of the test (--gtest_repeat)
  std::mt19937 random(++seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string bytes = get_file(file);
  const Value expected = read();
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto left = random() % bytes.size();
    const unsigned spins = 1u << random() % 20 | random() % 1024;
    std::atomic<bool> reads = false;
    std::atomic<unsigned> spun = 0;
    std::thread cutter([&] {
      while (!reads.load()) {
      }
      while (spun.fetch_add(1) < spins) {
      }
      std::filesystem::resize_file(file, left);
    });
    reads = true;
    expect_whole_or_error(file, expected, read);
    cutter.join();
    restore_file(file, bytes);
  }
}

}  // namespace plimsoll
