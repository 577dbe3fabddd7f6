#include "catalogue/device_cost.h"

#include <gtest/gtest.h>

#include "cost/cost.h"

namespace plimsoll {
namespace {

Op product(DType dtype, int64_t size) {
  const View view{0, dtype, 0, {size, size}, {size, 1}};
  Op op;
  op.name = "aten::mm";
  op.arguments = {{Argument::Kind::tensor, false, {view}}, {Argument::Kind::tensor, false, {view}}};
  op.flops = 2.0 * static_cast<double>(size * size * size);
  op.bytes_moved = 3 * size * size * element_bytes(dtype);
  return op;
}

TEST(DeviceCost, EveryDeviceTakesTimeForEveryKind) {
  for (const DeviceSpec& device : device_catalogue()) {
    SCOPED_TRACE(device.id);
    const CostModel model = cost_model_of(device);
    EXPECT_EQ(model.host_link > 0, !device.unified_memory);
    for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const double seconds = seconds_of(model, product(dtype, 4096));
      EXPECT_GT(seconds, 2.0 * 4096 * 4096 * 4096 / 5e15);
      EXPECT_LT(seconds, 2);
      for (int kind = 0; kind < kOpKinds; ++kind) EXPECT_GT(model.rate(static_cast<OpKind>(kind), dtype).bytes, 0);
    }
    EXPECT_LE(seconds_of(model, product(DType::float16, 4096)), seconds_of(model, product(DType::float32, 4096)));
  }
}

TEST(DeviceCost, SmallOpsCostTheirLaunch) {
  const CostModel model = cost_model_of(require_device("a6000"));
  EXPECT_NEAR(seconds_of(model, product(DType::float32, 8)), model.overhead_seconds, 0.1 * model.overhead_seconds);
}

TEST(DeviceCost, LargeProductsRunAtAShareOfTheDataSheet) {
  const DeviceSpec& device = require_device("h100-sxm");
  const double seconds = seconds_of(cost_model_of(device), product(DType::bfloat16, 8192));
  const double share = 2.0 * 8192 * 8192 * 8192 / seconds / device.rates.bf16;
  EXPECT_GT(share, 0.5);
  EXPECT_LT(share, 0.9);
}

}  // namespace
}  // namespace plimsoll
