// Tests NVRTC, which needs no device: every possible text of fused ops is compiled for devices of several generations,
// if the library is installed.
#include "device/nvrtc.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/fused/fused_source.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

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
       {std::tuple(DType::float32, 1, 80), {DType::bfloat16, 1, 90}, {DType::float16, 4, 90}})
    for (const FusedProgram& program : programs(dtype)) {
      const ops::FusedLayout layout{{DType::int64, dtype, DType::uint8}, {dtype}, {false, true, false}, dimensions};
      const std::vector<std::byte> code = nvrtc.compile(ops::fused_source(program, layout), capability);
      const std::string text(reinterpret_cast<const char*>(code.data()), code.size());
      EXPECT_EQ(text.substr(1, 3), "ELF");
      EXPECT_NE(text.find("plimsoll_fused"), std::string::npos);
      EXPECT_EQ(text.find("plimsoll_fused_wide") != std::string::npos, dimensions == 1);
    }
}

TEST_F(NvrtcTest, SaysWhatIsTheMatter) {
  const Nvrtc nvrtc;
  EXPECT_THROW(nvrtc.compile("this is no program", 80), InternalError);
  try {
    nvrtc.compile("", 11);
    FAIL() << "compute capability 1.1 was compiled for";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("compute capability 1.1"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll
