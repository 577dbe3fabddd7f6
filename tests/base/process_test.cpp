#include "base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Process, FreedMemoryIsNoLongerResident) {
#ifndef __GLIBC__
  GTEST_SKIP() << "only glibc returns freed memory on request";
#endif
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps freed memory";
#endif
  constexpr int kBlocks = 4096, kBlockBytes = 16 * 1024;  // 64 MiB in blocks that malloc() does not map one by one
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlockBytes));  // writes zeros
  }
  const int64_t before = resident_bytes();
  const std::unique_ptr<char[]> last = std::move(blocks.back());  // keeps the end of the heap in use
  blocks.clear();
  release_free_memory();
  EXPECT_LT(resident_bytes(), before - kBlocks / 2 * kBlockBytes);
  EXPECT_EQ(last[0], 0);
}

TEST(Process, ResidentMemoryCountsWhatIsWritten) {
  if (resident_memory().now == 0) GTEST_SKIP() << "the system does not say";
  constexpr int64_t kBytes = int64_t{32} << 20;
  std::vector<std::vector<char>> written;
  int64_t more = 0;
  // The system may take other resident pages back meanwhile.
  for (int attempt = 0; attempt < 8 && more < kBytes / 16 * 15; ++attempt) {
    const ResidentMemory before = resident_memory();
    written.emplace_back(static_cast<size_t>(kBytes), 'x');
    const ResidentMemory after = resident_memory();
    more = after.now - before.now;
    ASSERT_GT(before.now, 0);
    ASSERT_GE(after.peak, after.now);
  }
  EXPECT_GE(more, kBytes / 16 * 15);
}

TEST(Process, AFakeOfResidentMemoryEndsWithItsScope) {
  {
    const ScopedFakeResidentMemory outer([] { return ResidentMemory{.now = 1, .peak = 2}; });
    {
      const ScopedFakeResidentMemory inner([] { return ResidentMemory{.now = 3, .peak = 4}; });
      EXPECT_EQ(resident_memory().now, 3);
    }
    EXPECT_EQ(resident_memory().now, 1);
    EXPECT_EQ(resident_memory().peak, 2);
  }
  EXPECT_NE(resident_memory().now, 1);
  EXPECT_NE(resident_memory().now, 3);
}

/// A folder with the files of control groups, as /proc and /sys have them.
class ControlGroups : public ::testing::Test {
 protected:
  ~ControlGroups() override { std::filesystem::remove_all(root_); }
  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text << "\n";
  }
  const std::filesystem::path& folder() const { return root_; }
  std::optional<double> quota() const { return processor_quota(root_); }

 private:
  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("plimsoll-groups-" + std::to_string(::getpid()));
};

TEST_F(ControlGroups, QuotasOfProcessorsAreTheSmallestOfAllGroups) {
  EXPECT_FALSE(quota());
  put("proc/self/cgroup", "0::/machine/job");
  EXPECT_FALSE(quota());
  put("sys/fs/cgroup/machine/cpu.max", "250000 100000");
  EXPECT_DOUBLE_EQ(*quota(), 2.5);
  put("sys/fs/cgroup/machine/job/cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(*quota(), 2.5);
  put("sys/fs/cgroup/machine/job/cpu.max", "50000 100000");
  EXPECT_DOUBLE_EQ(*quota(), 0.5);
}

TEST_F(ControlGroups, MemoryStallsAreTheGroupsOrElseTheMachines) {
  const auto stalls = [&] { return memory_stall_seconds(folder()); };
  put("proc/self/cgroup", "3:memory:/job\n0::/machine/job");
  EXPECT_FALSE(stalls());
  put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1");
  EXPECT_DOUBLE_EQ(*stalls(), 2.5);
  put("sys/fs/cgroup/machine/job/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=40000");
  EXPECT_DOUBLE_EQ(*stalls(), 0.04);
  put("sys/fs/cgroup/machine/job/memory.pressure", "some total=none");
  EXPECT_DOUBLE_EQ(*stalls(), 2.5);
}

TEST_F(ControlGroups, QuotasOfTheFirstVersionHaveFilesOfTheirOwn) {
  put("proc/self/cgroup", "3:memory:/job\n2:cpu,cpuacct:/job\n1:cpuset:/\n0::/");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000");
  EXPECT_FALSE(quota());
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000");
  EXPECT_DOUBLE_EQ(*quota(), 3);
}

}  // namespace
}  // namespace plimsoll
