// Tests quantized weights on the emulated GPU: codes, scales and numbers are the CPU's, bit for bit.
#include <gmock/gmock.h>

#include "cuda_on_cpu/operator_testing.h"
#include "ops/layers/quantized_plan.h"
#include "ops/optimizer/optimizer_testing.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor result(const std::vector<c10::IValue>& results, size_t i = 0) {
  return results.at(i).toTensor();
}

struct Quantized {
  Tensor codes, scales;
  c10::IValue second;
};
Quantized quantize(const Tensor& weight, bool four_bits, bool twice) {
  const auto once = call("plimsoll::quantize_weight", {weight, four_bits});
  if (!twice) return {result(once), result(once, 1), {}};
  const auto again = call("plimsoll::quantize_scales", {result(once, 1)});
  return {result(once), result(again), result(again, 1)};
}

TEST(CudaQuantized, IsTheCpusToTheBit) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(1);
  for (const at::ScalarType type : kTypes)
    for (const auto& [rows, width] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 31}, {5, 64}, {4, 100}, {2, 257}, {70, 320}})
      for (const bool four_bits : {true, false}) {
        const Tensor weight = random_rows(rows, width, type, 3, 1);
        weight[0].zero_();
        const auto want = call("plimsoll::quantize_weight", {weight, four_bits});
        const auto got = call_on_cuda("plimsoll::quantize_weight", {weight, four_bits});
        for (size_t i = 0; i < 2; ++i)
          EXPECT_TRUE(same_bytes(result(got, i), result(want, i))) << type << " " << rows << " x " << width;
        const auto scales = call("plimsoll::quantize_scales", {result(want, 1)});
        const auto there = call_on_cuda("plimsoll::quantize_scales", {result(want, 1)});
        for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bytes(result(there, i), result(scales, i)));
        for (const bool twice : {false, true}) {
          const Quantized q = quantize(weight, four_bits, twice);
          for (const at::ScalarType to : kTypes) {
            const Arguments arguments{q.codes, q.scales, q.second, width, to};
            EXPECT_TRUE(same_bytes(result(call_on_cuda("plimsoll::dequantize_weight", arguments)),
                                   result(call("plimsoll::dequantize_weight", arguments))))
                << rows << " x " << width << " to " << to;
          }
        }
      }
}

TEST(CudaQuantized, SaysWhatIsNotFinite) {
  PLIMSOLL_NEEDS_GPU();
  for (const double bad : {INFINITY, NAN})
    for (const bool four_bits : {true, false}) {
      Tensor weight = at::randn({3, 130});
      weight[1][70] = bad;
      const auto results = call_on_cuda("plimsoll::quantize_weight", {weight, four_bits});
      const auto scales = call_on_cuda("plimsoll::quantize_scales", {result(results, 1)});
      const Tensor once = result(
          call_on_cuda("plimsoll::dequantize_weight", {result(results), result(results, 1), {}, 130, at::kFloat}));
      EXPECT_EQ(once.isfinite().sum().item<int64_t>(), 3 * 130 - 64);
      const Tensor twice = result(call_on_cuda("plimsoll::dequantize_weight",
                                               {result(results), result(scales), result(scales, 1), 130, at::kFloat}));
      EXPECT_EQ(twice.isfinite().sum().item<int64_t>(), 0);
    }
}

TEST(CudaQuantized, MultipliesAsTheCpuDoes) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(2);
  for (const at::ScalarType type : kTypes)
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {33, 65}, {48, 128}})
      for (const bool four_bits : {true, false})
        for (const bool transposed : {false, true}) {
          const Quantized q = quantize(at::randn({rows, width}), four_bits, true);
          Tensor x = at::randn({2, 5, width}, at::kDouble).to(type),
                 grad = at::randn({2, 5, rows}, at::kDouble).to(type);
          if (transposed) {
            x = x.transpose(0, 1).contiguous().transpose(0, 1);
            grad = grad.transpose(0, 1).contiguous().transpose(0, 1);
          }
          const Arguments forward{x, q.codes, q.scales, q.second}, backward{grad, q.codes, q.scales, q.second, width};
          expect_close(result(call_on_cuda("plimsoll::quantized_linear", forward)),
                       result(call("plimsoll::quantized_linear", forward)), tolerance(type), "y");
          expect_close(result(call_on_cuda("plimsoll::quantized_linear_backward", backward)),
                       result(call("plimsoll::quantized_linear_backward", backward)), tolerance(type), "dx");
          if (type != at::kFloat) continue;
          expect_cuda_workspace("plimsoll::quantized_linear", forward);
          expect_cuda_workspace("plimsoll::quantized_linear_backward", backward);
        }
}

// A weight of more than one piece, so that rows and columns are dequantized from the middle.
TEST(CudaQuantized, TakesLargeWeightsApartInPieces) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(3);
  const int64_t rows = 2048, width = 4160;
  ASSERT_LT(quantized_tile_rows(rows, width, 8, kQuantizedGpuTileBytes), rows);
  ASSERT_LT(quantized_tile_columns(rows, width, 8, kQuantizedGpuTileBytes), width);
  const Quantized q = quantize(at::randn({rows, width}), true, false);
  const Tensor x = at::randn({3, width}, at::kDouble), grad = at::randn({3, rows}, at::kDouble);
  const Tensor weight = result(call("plimsoll::dequantize_weight", {q.codes, q.scales, q.second, width, at::kDouble}));
  expect_close(result(call_on_cuda("plimsoll::quantized_linear", {x, q.codes, q.scales, q.second})), x.mm(weight.t()),
               1e-12, "y");
  expect_close(result(call_on_cuda("plimsoll::quantized_linear_backward", {grad, q.codes, q.scales, q.second, width})),
               grad.mm(weight), 1e-12, "dx");
}

}  // namespace
}  // namespace plimsoll::ops
