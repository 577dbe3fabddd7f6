#include "cli/utilization.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "test_files.h"

namespace plimsoll {
namespace {

class Utilization : public ::testing::Test {
 protected:
  Utilization() { std::filesystem::create_directories(root_ / "proc/42"); }
  void put(const char* file, const std::string& text) const { std::ofstream(root_ / file) << text; }

  const TempFolder temporary_;
  const std::filesystem::path root_ = temporary_.path();
};

TEST_F(Utilization, MemoryIsWhatTheSystemSays) {
  put("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    250 kB\n");
  const auto memory = memory_of_machine(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, 1000 * 1024);
  EXPECT_EQ(memory->available, 250 * 1024);
  put("proc/meminfo", "MemTotal: many kB\n");
  EXPECT_FALSE(memory_of_machine(root_));
}

TEST_F(Utilization, ProcessorTimeHasItsIdleShare) {
  put("proc/stat", "cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 2\n");
  const auto time = processor_time(root_);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->idle / time->total, 0.8);
  put("proc/stat", "cpu  1 2\n");
  EXPECT_FALSE(processor_time(root_));
}

TEST_F(Utilization, AProcessMayBeCalledAnything) {
  put("proc/42/stat", "42 (a) b (c)) S 1 1 1 0 -1 4194560 10 20 30 40 300 200 0 0 20 0 1 0\n");
  const auto seconds = processor_seconds_of(42, root_);
  ASSERT_TRUE(seconds);
  EXPECT_DOUBLE_EQ(*seconds, 500.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  EXPECT_FALSE(processor_seconds_of(43, root_));
}

TEST(UtilizationHere, OwnMemoryAndTimeAreThere) {
  EXPECT_GT(resident_bytes_of(::getpid()).value_or(0), 1 << 20);
  EXPECT_TRUE(processor_time());
  EXPECT_TRUE(processor_seconds_of(::getpid()));
  for (const GpuUse& gpu : gpus_in_use()) EXPECT_GT(gpu.memory_total, 0);  // none without a driver
}

}  // namespace
}  // namespace plimsoll
