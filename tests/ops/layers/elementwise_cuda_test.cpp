// Tests rope, swiglu and geglu: kernels without barriers.
#include <cmath>

#include "cuda_on_cpu/kernel_testing.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor run_rope(const Tensor& x, int64_t position, double theta, bool inverse) {
  const int64_t width = x.size(3);
  std::vector<double> frequencies(static_cast<size_t>(width / 2));
  for (int64_t i = 0; i < width / 2; ++i)
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  Tensor out = unwritten(x.sizes(), x.scalar_type());
  cuda::launch_rope({.x = x.const_data_ptr(),
                     .out = out.data_ptr(),
                     .dtype = dtype_of(x),
                     .batch = x.size(0),
                     .tokens = x.size(1),
                     .heads = x.size(2),
                     .width = width,
                     .from = {x.stride(0), x.stride(1), x.stride(2)},
                     .to = {out.stride(0), out.stride(1), out.stride(2)},
                     .frequencies = frequencies.data(),
                     .position = position,
                     .inverse = inverse},
                    nullptr);
  return out;
}

Tensor rope_on_cpu(const Tensor& x, int64_t position, double theta, bool inverse) {
  return call("plimsoll::rope", {x, position, theta, inverse, std::vector<double>{}})[0].toTensor();
}

TEST(CudaRope, AgreesWithTheCpu) {
  at::manual_seed(2);
  for (const auto type : kTypes)
    for (const int64_t width : {2, 6, 16, 64, 130, 520, 1040})  // above 512 in two or three launches
      for (const bool inverse : {false, true})
        for (const int64_t position : {0, 3000000}) {
          const Tensor x = at::randn({2, 5, 9, width}, at::kDouble).to(type);
          expect_close(run_rope(x, position, 10000.0, inverse), rope_on_cpu(x, position, 10000.0, inverse),
                       tolerance(type) / 4, std::string(c10::toString(type)) + " " + std::to_string(width));
        }
}

TEST(CudaRope, TakesStridesAndMisalignedRows) {
  const Tensor fused = at::randn({2, 7, 1000}).to(at::kBFloat16);
  for (const int64_t begin : {0, 8, 3}) {
    const Tensor x = fused.narrow(2, begin, 12 * 32).view({2, 7, 12, 32});
    expect_close(run_rope(x, 5, 500.0, false), rope_on_cpu(x, 5, 500.0, false), 8e-3, "slice");
  }
  const Tensor heads_first = at::randn({2, 3, 7, 64}).transpose(1, 2);
  expect_close(run_rope(heads_first, 0, 1e4, false), rope_on_cpu(heads_first, 0, 1e4, false), 1e-6, "transposed");
}

TEST(CudaGated, AgreesWithTheCpu) {
  at::manual_seed(3);
  for (const auto type : kTypes)
    for (const int64_t width : {1, 8, 31, 33, 257, 2048, 2072})
      for (const auto& [extra, shift] : {std::pair{0, 0}, {16, 8}, {1, 0}, {0, 1}}) {
        const Tensor gate_up = random_rows(7, 2 * width, type, extra, shift).mul_(4),
                     grad = random_rows(7, width, type, shift, extra);
        for (const auto gate : {cuda::Gate::silu, cuda::Gate::gelu}) {
          const std::string name = gate == cuda::Gate::silu ? "plimsoll::swiglu" : "plimsoll::geglu";
          const Tensor y = unwritten({7, width}, type), dx = unwritten({7, 2 * width}, type);
          cuda::launch_gated(gate, const_rows(gate_up), rows(y), 7, width, nullptr);
          cuda::launch_gated_backward(gate, const_rows(grad), const_rows(gate_up), rows(dx), 7, width, nullptr);
          const std::string what = name + " " + c10::toString(type) + " " + std::to_string(width);
          expect_close(y, call(name, {gate_up})[0].toTensor(), tolerance(type) / 4, what);
          expect_close(dx, call(name + "_backward", {grad, gate_up})[0].toTensor(), tolerance(type) / 4, what + " dx");
        }
      }
}

TEST(CudaGated, KeepsItsEnds) {
  const Tensor gate_up = at::tensor({-200.0f, 200.0f, 0.0f, -20.0f, 1.0f, 1.0f, 1.0f, 1.0f}).view({1, 8});
  for (const auto gate : {cuda::Gate::silu, cuda::Gate::gelu}) {
    const Tensor y = unwritten({1, 4}, at::kFloat);
    cuda::launch_gated(gate, const_rows(gate_up), rows(y), 1, 4, nullptr);
    EXPECT_NEAR(y[0][0].item<float>(), 0.0f, 1e-30);
    EXPECT_EQ(y[0][1].item<float>(), 200.0f);
    EXPECT_EQ(y[0][2].item<float>(), 0.0f);
    EXPECT_NEAR(y[0][3].item<float>(), 0.0f, 1e-6);
  }
}

}  // namespace
}  // namespace plimsoll::ops
