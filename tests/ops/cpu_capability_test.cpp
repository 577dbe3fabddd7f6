#include "ops/cpu_capability.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "plimsoll/machine.h"

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

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

TEST(CpuInstructions, AreThoseThatTheMasksAllow) {
  const CpuInstructions used = cpu_instructions();
  fmt::print(
      "instruction sets: threads {} | plimsoll {} | libtorch {} | oneDNN {} | MKL {} | bfloat16 {} | float16 {}\n",
      at::get_num_threads(), used.plimsoll, used.libtorch, used.onednn, used.mkl, used.bfloat16_product,
      used.float16_product);
  EXPECT_EQ(used.plimsoll, name_of(cpu_capability()));
  if (const auto requested = capability_named(variable("PLIMSOLL_CPU_CAPABILITY"))) {
    EXPECT_EQ(used.plimsoll, name_of(std::min(*requested, highest_cpu_capability())));
  }
  const std::string libtorch = variable("ATEN_CPU_CAPABILITY");
  if (libtorch == "default") {
    EXPECT_EQ(used.libtorch, "DEFAULT");
  } else if (libtorch == "avx2") {
    EXPECT_THAT(used.libtorch, AnyOf("AVX2", "DEFAULT"));
  }
  EXPECT_NE(used.onednn, "");
  const std::string onednn = variable("ONEDNN_MAX_CPU_ISA");
  if (onednn == "AVX2") {
    EXPECT_THAT(used.onednn, Not(HasSubstr("AVX-512")));
  } else if (onednn == "AVX512_CORE") {
    EXPECT_THAT(used.onednn, Not(HasSubstr("bfloat16")));
    EXPECT_THAT(used.onednn, Not(HasSubstr("AMX")));
  }
  // MKL reports no instructions for another maker's processor, so the effect of the mask cannot be seen.
  if (variable("MKL_ENABLE_INSTRUCTIONS") == "AVX2" && used.mkl.find("AVX") != std::string::npos) {
    EXPECT_THAT(used.mkl, Not(HasSubstr("AVX-512")));
  }
}

// A second request gives the same result, and standard output is restored.
TEST(CpuInstructions, LeaveStandardOutputAlone) {
  ::testing::internal::CaptureStdout();
  std::fputs("before ", stdout);
  const CpuInstructions used = cpu_instructions();
  std::fputs("after", stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "before after");
  EXPECT_EQ(used.libtorch, cpu_instructions().libtorch);
}

}  // namespace
}  // namespace plimsoll
