#include "ops/optimizer/gradient_norm_launch.h"

#include <cmath>

#include "cuda_on_cpu/kernel_testing.h"
#include "ops/cuda_plan.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

struct Result {
  float norm = -1, skipped = 0;
};

Result run(const Tensor& gradient) {
  Result result;
  const Tensor partials = unwritten({std::max<int64_t>(1, div_up(gradient.numel(), kCudaNormBlock))}, at::kDouble);
  cuda::launch_gradient_norm(gradient.const_data_ptr(), dtype_of(gradient), gradient.numel(),
                             partials.data_ptr<double>(), &result.norm, &result.skipped, nullptr);
  return result;
}

TEST(CudaGradientNorm, AgreesWithFloat64) {
  at::manual_seed(4);
  for (const auto type : kTypes)
    for (const int64_t count : {1, 7, 257, 4096, 32768, 100003})
      for (const int64_t shift : {0, 1}) {
        const Tensor gradient = random_rows(1, count, type, 0, shift)[0];
        const double want = gradient.to(at::kDouble).norm().item<double>();
        for (const auto order : kOrders) {
          const InOrder in(order);
          const Result got = run(gradient);
          EXPECT_NEAR(got.norm, want, 3e-7 * want) << c10::toString(type) << " " << count;
          EXPECT_EQ(got.norm, run(gradient).norm);
          EXPECT_EQ(got.skipped, 0);
        }
      }
  EXPECT_EQ(run(at::empty({0})).norm, 0);
}

TEST(CudaGradientNorm, FiniteGradientsMayHaveSquaresOutsideOfFloat32) {
  for (const double value : {3e30, 1e-25})
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const int64_t count : {1, 7, 257, 4096}) {
        const Tensor gradient = at::full({count}, value, type);
        const double want = gradient[0].item<double>() * std::sqrt(static_cast<double>(count));
        const Result got = run(gradient);
        EXPECT_NEAR(got.norm, want, 3e-7 * want) << c10::toString(type) << " " << count;
        EXPECT_EQ(got.skipped, 0);
      }
}

TEST(CudaGradientNorm, MarksWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const int64_t at : {0, 40000, 49999}) {
      Tensor gradient = at::ones({50000}, at::kBFloat16);
      gradient[at] = bad;
      EXPECT_EQ(run(gradient).skipped, 1);
    }
}

}  // namespace
}  // namespace plimsoll::ops
