// Tests memory of devices, by runtimes that may be missing on this machine, and available memory of the host.
#include "device/available_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "device/backend.h"
#include "test_files.h"

namespace plimsoll {
namespace {

// A fake HIP runtime, compiled for the test.
std::string runtime_that_answers(const TempFolder& folder, const std::string& body) {
  const auto source = folder.path() / "hip.c", library = folder.path() / "libamdhip64.so";
  std::ofstream(source) << "#include <stddef.h>\nint hipMemGetInfo(size_t* free, size_t* total) {" << body << "}\n";
  const std::string command = "cc -shared -fPIC -o '" + library.string() + "' '" + source.string() + "'";
  if (std::system(command.c_str()) != 0) return "";
  return library.string();
}

TEST(DeviceMemory, IsWhatTheHipRuntimeSays) {
  const TempFolder folder;
  const std::string runtime = runtime_that_answers(folder, "*free = 3; *total = 8; return 0;");
  ASSERT_FALSE(runtime.empty());
  const auto memory = hip_memory(runtime.c_str());
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->free, 3);
  EXPECT_EQ(memory->total, 8);
}

TEST(DeviceMemory, IsUnknownWhereTheRuntimeFailsOrLies) {
  for (const char* body : {"return 100;", "*free = 9; *total = 8; return 0;", "*free = 0; *total = 0; return 0;"}) {
    const TempFolder folder;
    EXPECT_FALSE(hip_memory(runtime_that_answers(folder, body).c_str())) << body;
  }
  EXPECT_FALSE(hip_memory("/nowhere/libamdhip64.so"));
}

TEST(DeviceMemory, OfMetalIsUnknownElsewhere) {
#ifndef __APPLE__
  EXPECT_FALSE(metal_memory());
#endif
}

// cuBLASLt's kernels need memory of cudaMalloc; this is known on any machine.
TEST(PlaceAlignment, IsTheDevices) {
  EXPECT_EQ(place_alignment("cuda"), 256);
  EXPECT_EQ(place_alignment("rocm"), 256);
  EXPECT_EQ(place_alignment("cpu"), kArenaAlignment);
  EXPECT_EQ(place_alignment("a program's own"), kArenaAlignment);
}

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

TEST_F(HostMemoryTest, LimitsOfControlGroupsAreTheSmallestOfAllGroups) {
  put("proc/meminfo", "MemAvailable:    8192 kB\n");
  EXPECT_FALSE(control_group_memory(folder_.path()));
  put("proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // what version 1 has without a limit
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  EXPECT_FALSE(control_group_memory(folder_.path()));
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000\n");
  put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "5000\n");
  put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "10\n");
  EXPECT_EQ(control_group_memory(folder_.path()), 3000);
  EXPECT_EQ(available_host_memory(folder_.path()), 2000);
}

}  // namespace
}  // namespace plimsoll
