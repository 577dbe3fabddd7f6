#include "base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
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

}  // namespace
}  // namespace plimsoll
