// Tests NVRTC, which needs no device: every possible text of fused ops is compiled for devices of several generations,
// if the library is installed.
#include "device/nvrtc.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "ops/fused/fused_source.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_nvrtc()) GTEST_SKIP() << "no libnvrtc here (the package nvidia-cuda-nvrtc)";
  }
};

// All opcodes, in programs of as many steps as they may have.
std::vector<FusedProgram> programs(DType dtype) {
  std::vector<FusedProgram> programs;
  for (int o = 0; o < kOpcodes; ++o) {
    if (programs.empty() || static_cast<int32_t>(programs.back().steps.size()) == kMaxFusedSteps) {
      programs.emplace_back();
      programs.back().inputs = 3;
      programs.back().constants = {0.5, 20.0};
    }
    FusedProgram& program = programs.back();
    FusedProgram::Step step{static_cast<Opcode>(o), dtype, {}};
    for (int i = 0; i < operands_of(step.opcode); ++i) step.operands[i] = i == 0 ? program.values() - 1 : i;
    program.steps.push_back(step);
    program.outputs = {program.values() - 1};
  }
  return programs;
}

TEST_F(NvrtcTest, CompilesEveryOpcodeTypeAndLayout) {
  const Nvrtc nvrtc;
  for (const auto& [dtype, dimensions, capability] :
       {std::tuple(DType::float32, 1, 80), {DType::bfloat16, 1, 90}, {DType::float16, 4, 90}, {DType::bfloat16, 3, 80}})
    for (const FusedProgram& program : programs(dtype)) {
      ops::FusedLayout layout{{DType::int64, dtype, DType::uint8}, {dtype}, {false, true, false}, dimensions};
      if (dimensions == 3) ops::set_rows(layout, {1, 0, 0}, {1});
      const std::vector<std::byte> code = nvrtc.compile(ops::fused_source(program, layout), capability);
      const std::string text(reinterpret_cast<const char*>(code.data()), code.size());
      EXPECT_EQ(text.substr(1, 3), "ELF");
      EXPECT_NE(text.find("plimsoll_fused"), std::string::npos);
      EXPECT_EQ(text.find("plimsoll_fused_wide") != std::string::npos, dimensions != 4);
    }
}

TEST_F(NvrtcTest, SaysWhatIsTheMatter) {
  const Nvrtc nvrtc;
  try {
    nvrtc.compile("this is no program", 80);
    FAIL() << "compiled";
  } catch (const InternalError& error) {
    // The compiler's text, which names the file and the line.
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a kernel does not compile"), HasSubstr("fused.cu(1): error"), EndsWith("(error 6)")));
  }
  try {
    nvrtc.compile("", 11);
    FAIL() << "compute capability 1.1 was compiled for";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("compute capability 1.1"), std::string::npos);
  }
}

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
