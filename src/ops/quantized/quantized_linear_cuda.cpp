#include "ops/cuda_op_support.h"
#include "ops/quantized/quantized_launch.h"
#include "ops/quantized/quantized_linear.h"
#include "ops/quantized/quantized_plan.h"

namespace plimsoll::cuda {
namespace {

using at::Tensor;
using Second = std::optional<Tensor>;
using namespace ops;

std::tuple<Tensor, Tensor> quantize_weight_cuda(const Tensor& weight, bool four_bits) {
  const OnDevice device(weight);
  auto results = empty_quantized(weight, four_bits);
  const auto& [codes, scales] = results;
  const Tensor from = as_rows(weight);
  launch_quantize(const_rows(from), weight.size(0), weight.size(1), four_bits, codes.mutable_data_ptr(),
                  scales.mutable_data_ptr<float>(), device.stream());
  return results;
}

std::tuple<Tensor, Tensor> quantize_scales_cuda(const Tensor& scales) {
  const OnDevice device(scales);
  auto results = empty_scale_codes(scales);
  const auto& [codes, second] = results;
  launch_quantize_scales(scales.const_data_ptr<float>(), scales.numel(), codes.mutable_data_ptr<uint8_t>(),
                         second.mutable_data_ptr<float>(), device.stream());
  return results;
}

Tensor dequantize_weight_cuda(const Tensor& codes, const Tensor& scales, const Second& second, int64_t width,
                              at::ScalarType dtype) {
  const OnDevice device(codes);
  Tensor weight = empty_dequantized(codes, scales, second, width, dtype);
  launch_dequantize(quantized_view(codes, scales, second, width), rows(weight), 0, width, 0, codes.size(0),
                    device.stream());
  return weight;
}

// The weight is dequantized piece by piece in scratch and multiplied, as on the CPU.

Tensor quantized_linear_cuda(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  const OnDevice device(x);
  const Tensor y = empty_quantized_linear(x, codes, scales, second);
  if (y.numel() == 0) return y;
  if (x.size(-1) == 0) return y.zero_();
  const Tensor from = as_matrix(x), to = y.view({-1, y.size(-1)});
  const int64_t width = x.size(-1), rows_of_weight = codes.size(0);
  const int64_t tile_rows = quantized_tile_rows(rows_of_weight, width, x.element_size(), kQuantizedGpuTileBytes);
  const QuantizedWeight weight = quantized_view(codes, scales, second, width);
  const Tensor tile = at::empty({tile_rows, width}, x.options());
  for (int64_t first = 0; first < rows_of_weight; first += tile_rows) {
    const int64_t size = std::min(tile_rows, rows_of_weight - first);
    launch_dequantize(weight, rows(tile), 0, width, first, first + size, device.stream());
    Tensor part = to.narrow(1, first, size);
    at::mm_out(part, from, tile.narrow(0, 0, size).t());
  }
  return y;
}

Tensor quantized_linear_backward_cuda(const Tensor& grad, const Tensor& codes, const Tensor& scales,
                                      const Second& second, int64_t width) {
  const OnDevice device(grad);
  const Tensor dx = empty_quantized_linear_gradient(grad, codes, scales, second, width);
  if (dx.numel() == 0) return dx;
  if (grad.size(-1) == 0) return dx.zero_();
  const Tensor from = as_matrix(grad), to = dx.view({-1, width});
  const int64_t rows_of_weight = codes.size(0);
  const int64_t columns = quantized_tile_columns(rows_of_weight, width, grad.element_size(), kQuantizedGpuTileBytes);
  const QuantizedWeight weight = quantized_view(codes, scales, second, width);
  const Tensor tile = at::empty({rows_of_weight * std::min(columns, width)}, grad.options());
  for (int64_t first = 0; first < width; first += columns) {
    const int64_t size = std::min(columns, width - first);
    const Tensor piece = tile.narrow(0, 0, rows_of_weight * size).view({rows_of_weight, size});
    launch_dequantize(weight, rows(piece), first, size, 0, rows_of_weight, device.stream());
    Tensor part = to.narrow(1, first, size);
    at::mm_out(part, from, piece);
  }
  return dx;
}

}  // namespace

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("quantize_weight", quantize_weight_cuda);
  m.impl("quantize_scales", quantize_scales_cuda);
  m.impl("dequantize_weight", dequantize_weight_cuda);
  m.impl("quantized_linear", quantized_linear_cuda);
  m.impl("quantized_linear_backward", quantized_linear_backward_cuda);
}

}  // namespace plimsoll::cuda
