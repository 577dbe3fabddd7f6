#include "run/machine_rates.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Bounds that are orders of magnitude away from any processor: this finds a formula that counts wrongly, and times
// nothing.
TEST(MachineRates, AreThoseOfAProcessor) {
  constexpr double kMaxRate = 1e15;
  const CostModel model = measure_rates(1);
  for (OpKind kind : {OpKind::product, OpKind::convolution, OpKind::attention, OpKind::loss_head})
    for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const double flops = model.rate(kind, dtype).flops;
      EXPECT_GT(flops, dtype == DType::float32 ? 1e8 : 1e6) << static_cast<int>(kind) << " " << name_of(dtype);
      EXPECT_LT(flops, kMaxRate);
    }
  for (OpKind kind : {OpKind::streaming, OpKind::reduction, OpKind::random, OpKind::update})
    for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const double bytes = model.rate(kind, dtype).bytes;
      EXPECT_GT(bytes, 1e6) << static_cast<int>(kind) << " " << name_of(dtype);
      EXPECT_LT(bytes, kMaxRate);
    }
  EXPECT_EQ(model.rate(OpKind::product, DType::float64).flops, model.rate(OpKind::product, DType::float32).flops / 2);
  EXPECT_GT(model.host_link, 1e7);
  EXPECT_GT(model.overhead_seconds, 1e-9);
  EXPECT_LT(model.overhead_seconds, 1e-2);
}

}  // namespace
}  // namespace plimsoll
