#include "device/compiled_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace plimsoll {
namespace {

class CompiledCacheTest : public ::testing::Test {
 protected:
  CompiledCacheTest()
      : folder_(std::filesystem::temp_directory_path() / ("plimsoll-cache-" + std::to_string(::getpid()))),
        cache_(folder_ / "kernels") {}
  ~CompiledCacheTest() override { std::filesystem::remove_all(folder_); }
  static std::vector<std::byte> code(size_t bytes) {
    std::vector<std::byte> made(bytes);
    for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7);
    return made;
  }
  std::filesystem::path folder_;
  CompiledCache cache_;
};

TEST_F(CompiledCacheTest, GivesBackWhatWasKept) {
  EXPECT_FALSE(cache_.find("a"));
  cache_.keep("a", code(1000));
  cache_.keep("b", code(0));
  EXPECT_EQ(cache_.find("a"), code(1000));
  EXPECT_EQ(cache_.find("b"), code(0));
  EXPECT_FALSE(cache_.find("c"));
  cache_.keep("a", code(10));
  EXPECT_EQ(cache_.find("a"), code(10));
}

TEST_F(CompiledCacheTest, FindsOutEveryDamage) {
  cache_.keep("a", code(100));
  const std::filesystem::path file = cache_.file_of("a");
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file));
  std::string bytes(static_cast<size_t>(size), 0);
  std::ifstream(file, std::ios::binary).read(bytes.data(), size);
  const auto put = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    return cache_.find("a").has_value();
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(put(damaged)) << "byte " << i;
    EXPECT_FALSE(put(bytes.substr(0, i))) << "cut at " << i;
  }
  EXPECT_FALSE(put(bytes + "x"));
  EXPECT_TRUE(put(bytes));
  // Code of another key, under this one's name.
  cache_.keep("b", code(100));
  std::filesystem::copy_file(cache_.file_of("b"), file, std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(cache_.find("a"));
  cache_.keep("a", code(3));
  EXPECT_EQ(cache_.find("a"), code(3));
}

TEST_F(CompiledCacheTest, LoadsNothingThatAnotherUserMayWrite) {
  using std::filesystem::perms;
  const auto mode = [](const std::filesystem::path& path, int bits) {
    std::filesystem::permissions(path, static_cast<perms>(bits));
  };
  cache_.keep("a", code(100));
  const std::filesystem::path file = cache_.file_of("a"), kernels = folder_ / "kernels";
  for (const int bits : {0664, 0646, 0666}) {
    mode(file, bits);
    EXPECT_FALSE(cache_.find("a")) << bits;
    mode(file, 0644);
    EXPECT_TRUE(cache_.find("a"));
  }
  for (const int bits : {0775, 0757, 01777}) {
    mode(kernels, bits);
    EXPECT_FALSE(cache_.find("a")) << bits;
    mode(kernels, 0755);
    EXPECT_TRUE(cache_.find("a"));
  }
  // A link could lead to any file.
  std::filesystem::rename(file, folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", file);
  EXPECT_FALSE(cache_.find("a"));
  std::filesystem::remove(file);
  std::filesystem::rename(folder_ / "elsewhere", file);
  EXPECT_TRUE(cache_.find("a"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache_.find("a"));
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  EXPECT_TRUE(cache_.find("a"));
  ASSERT_EQ(::chown(kernels.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(cache_.find("a"));
  const std::string before = cache_.file_of("b").string();
  cache_.keep("b", code(10));
  EXPECT_FALSE(std::filesystem::exists(before));
}

TEST_F(CompiledCacheTest, KeepsWhatItLoadsUnderAUmaskThatLetsTheGroupWrite) {
  const mode_t umask = ::umask(002);
  cache_.keep("a", code(100));
  ::umask(umask);
  EXPECT_EQ(cache_.find("a"), code(100));
  // A folder of an earlier release.
  std::filesystem::permissions(folder_ / "kernels", std::filesystem::perms(0775));
  EXPECT_FALSE(cache_.find("a"));
  cache_.keep("b", code(3));
  EXPECT_EQ(cache_.find("b"), code(3));
}

TEST_F(CompiledCacheTest, DoesWithoutAFolder) {
  const CompiledCache none{{}};
  none.keep("a", code(10));
  EXPECT_FALSE(none.find("a"));
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "file") << "in the way";
  const CompiledCache blocked(folder_ / "file" / "kernels");
  blocked.keep("a", code(10));
  EXPECT_FALSE(blocked.find("a"));
}

}  // namespace
}  // namespace plimsoll
