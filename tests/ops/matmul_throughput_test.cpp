#include "ops/matmul_throughput.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "base/measurement.h"
#include "ops/cpu_capability.h"

namespace plimsoll::ops {
namespace {

MatmulThroughputs fake() {
  MatmulThroughputs speeds;
  speeds.of(DType::float32) = {80e9, 80e9, 30e9};
  speeds.of(DType::bfloat16) = {140e9, 70e9, 60e9};
  speeds.of(DType::float16) = {4e9, 65e9, 3e9};
  return speeds;
}

TEST(MatmulThroughput, AFileIsReadBackAndADamagedOneIsNothingKnown) {
  const std::string text = products_text(fake());
  const auto read = products_of(text);
  ASSERT_TRUE(read);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    EXPECT_EQ(read->of(dtype).libtorch, fake().of(dtype).libtorch);
    EXPECT_EQ(read->of(dtype).blocks, fake().of(dtype).blocks);
    EXPECT_EQ(read->of(dtype).convolution, fake().of(dtype).convolution);
  }
  MatmulThroughputs none = fake();
  none.of(DType::float16).libtorch = 0;
  for (const std::string& damaged : {std::string(), std::string("[]"), std::string("{\"machine\": 3}"),
                                     text.substr(0, text.size() / 2), products_text(none)})
    EXPECT_FALSE(products_of(damaged)) << damaged;
}

TEST(MatmulThroughput, AFileOfTriesThatDidNotAgreeHoldsForADay) {
  const int64_t day = 24 * 3600, now = 1'800'000'000;
  const std::string text = products_text(fake(), now + day);
  EXPECT_TRUE(products_of(text, now));
  EXPECT_TRUE(products_of(text, now + day - 1));
  EXPECT_FALSE(products_of(text, now + day));
  EXPECT_FALSE(products_of(text, now - 1));  // the clock was set back
  EXPECT_TRUE(products_of(products_text(fake()), now + 1000 * day));
}

TEST(MatmulThroughput, AMaskedProcessorIsAnother) {
  const std::string text = products_text(fake()), name = machine_name();
  const char* const before = ::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string kept = before ? before : "";
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  EXPECT_NE(machine_name(), name);
  EXPECT_NE(instruction_masks().find("ONEDNN_MAX_CPU_ISA=SSE41"), std::string::npos);
  EXPECT_FALSE(products_of(text));
  if (before)
    ::setenv("ONEDNN_MAX_CPU_ISA", kept.c_str(), 1);
  else
    ::unsetenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_TRUE(products_of(text));
}

// On any processor, the faster of the two is used, within the tolerance of kSlowMatmul.
TEST(MatmulThroughput, SlowProductsAreNotUsed) {
  const double single = matmul_throughputs().of(DType::float32).libtorch;
  EXPECT_GT(single, 0);
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const MatmulThroughput& speed = matmul_throughputs().of(dtype);
    const bool blocks = float32_products(dtype);
    EXPECT_GE(blocks ? speed.blocks : speed.libtorch, std::min(speed.blocks, kSlowMatmul * single));
    const double quarter = 4 * std::log2(relative_matmul_speed(dtype));
    EXPECT_NEAR(quarter, std::round(quarter), 1e-9);
  }
  EXPECT_FALSE(float32_products(DType::float32));
  EXPECT_EQ(relative_matmul_speed(DType::float32), 1);
}

TEST(StableTiming, ASpikeIsNotBelieved) {
  for (const std::vector<double>& tries : {std::vector<double>{693, 75.6, 76}, {75, 693, 80}, {700, 300, 75, 78}}) {
    StableTiming agreed;
    for (size_t i = 0; i < tries.size(); ++i) {
      EXPECT_FALSE(agreed.converged()) << i;
      agreed.add(tries[i]);
    }
    EXPECT_TRUE(agreed.converged());
    EXPECT_LE(agreed.shortest(), 76);
  }
}

}  // namespace
}  // namespace plimsoll::ops
