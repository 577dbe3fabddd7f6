#include "ops/cpu_capability.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(CpuCapability, HasNames) {
  for (const auto capability : {CpuCapability::baseline, CpuCapability::avx2, CpuCapability::avx512})
    EXPECT_EQ(capability_named(name_of(capability)), capability);
  for (const char* wrong : {"", "AVX2", "avx", "avx512f"}) EXPECT_FALSE(capability_named(wrong)) << wrong;
}

TEST(CpuCapability, IsNeverMoreThanTheProcessorHas) {
  EXPECT_LE(cpu_capability(), highest_cpu_capability());
  const CpuCapability before = cpu_capability();
  {
    const CpuCapabilityScope scope(CpuCapability::avx512);
    EXPECT_EQ(cpu_capability(), highest_cpu_capability());
    const CpuCapabilityScope inner(CpuCapability::baseline);
    EXPECT_EQ(cpu_capability(), CpuCapability::baseline);
  }
  EXPECT_EQ(cpu_capability(), before);
}

}  // namespace
}  // namespace plimsoll
