#include "device/host_memory.h"

#include <gtest/gtest.h>

#include "test_files.h"

namespace plimsoll {
namespace {

class HostMemoryTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    put_file(folder_ / name, text);
  }
  void put_meminfo() {
    put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:          500000 kB\nMemAvailable:    8000000 kB\n");
  }

  TempFolder folder_;
};

TEST_F(HostMemoryTest, IsWhatTheKernelCountsAsAvailable) {
  put_meminfo();
  EXPECT_EQ(available_host_memory(folder_.path()), int64_t{8000000} * 1024);
}

TEST_F(HostMemoryTest, IsUnknownWhereTheSystemDoesNotSay) {
  EXPECT_EQ(available_host_memory(folder_.path()), std::nullopt);
  put("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: plenty\n");
  EXPECT_EQ(available_host_memory(folder_.path()), std::nullopt);
}

TEST_F(HostMemoryTest, IsWhatTheControlGroupLeaves) {
  put_meminfo();
  put("proc/self/cgroup", "0::/jobs/one\n");
  put("sys/fs/cgroup/jobs/one/memory.max", "1000000\n");
  put("sys/fs/cgroup/jobs/one/memory.current", "400000\n");
  put("sys/fs/cgroup/jobs/one/memory.stat", "anon 100000\ninactive_file 150000\nactive_file 5\n");
  EXPECT_EQ(available_host_memory(folder_.path()), 1000000 - (400000 - 150000));
}

TEST_F(HostMemoryTest, AnOuterGroupMayLeaveLess) {
  put_meminfo();
  put("proc/self/cgroup", "0::/jobs/one\n");
  put("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  put("sys/fs/cgroup/jobs/one/memory.current", "400000\n");
  put("sys/fs/cgroup/jobs/memory.max", "500000\n");
  put("sys/fs/cgroup/jobs/memory.current", "450000\n");
  EXPECT_EQ(available_host_memory(folder_.path()), 50000);
}

TEST_F(HostMemoryTest, ReadsTheFirstVersionOfControlGroupsToo) {
  put_meminfo();
  put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "700000\n");
  put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "900000\n");
  EXPECT_EQ(available_host_memory(folder_.path()), 0);
}

TEST_F(HostMemoryTest, ThisMachineHasSome) {
  const auto available = available_host_memory();
  EXPECT_GT(available.value_or(1), 0);
}

TEST(HostMemoryNow, IsTheMachinesUnlessSomebodyStandsIn) {
  const auto own = current_host_memory();
  {
    const ScopedFakeHostMemory full([] { return std::optional<int64_t>(7); });
    EXPECT_EQ(current_host_memory(), 7);
    {
      const ScopedFakeHostMemory silent([] { return std::optional<int64_t>(); });
      EXPECT_EQ(current_host_memory(), std::nullopt);
    }
    EXPECT_EQ(current_host_memory(), 7);
  }
  EXPECT_EQ(current_host_memory().has_value(), own.has_value());
  EXPECT_NE(current_host_memory(), 7);
}

}  // namespace
}  // namespace plimsoll
