// Tests memory of devices, by runtimes that may be missing on this machine.
#include "device/device_memory.h"
#include "device/backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

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

}  // namespace
}  // namespace plimsoll
