#include "ops/cuda_op_support.h"
#include "ops/layers/layers_launch.h"
#include "ops/layers/quantized_linear.h"
#include "ops/layers/quantized_plan.h"
#include "ops/layers/rms_norm.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> add_rms_norm_cuda(Tensor& sum, const Tensor& a, const Tensor& b, const Tensor& weight,
                                             double eps, std::optional<at::ScalarType> out_dtype) {
  auto [y, rstd] = add_rms_norm_results(sum, a, b, weight, eps, out_dtype);
  const cuda::OnDevice on("plimsoll::add_rms_norm", sum, a, b, weight);
  const Tensor from_a = as_rows(a), from_b = as_rows(b), scale = weight.contiguous();
  const int64_t width = sum.size(-1);
  cuda::launch_add_rms_norm({.a = const_rows(from_a), .b = const_rows(from_b), .sum = rows(sum), .width = width},
                            {.x = const_rows(sum),
                             .y = rows(y),
                             .weight = scale.const_data_ptr(),
                             .rstd = rstd.data_ptr(),
                             .width = width,
                             .eps = eps},
                            dtype_of(scale), row_count(sum), on.stream());
  return {y, rstd};
}

Tensor rms_norm_backward_into(const char* op, Tensor& sum, const Rows& copy, const Tensor& dweight, const Tensor& grad,
                              const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  const cuda::OnDevice on(op, x, sum, dweight, grad, grad_y, weight, rstd);
  const Tensor before = as_rows(grad), grads = as_rows(grad_y), from = as_rows(x), scale = weight.contiguous();
  const int64_t width = x.size(-1), count = row_count(x);
  const Tensor partials = at::empty({div_up(count, cuda_norm_block_rows(count)), width}, rstd.options());
  cuda::launch_rms_norm_backward_add({.a = const_rows(before), .b = {}, .sum = rows(sum), .width = width}, copy,
                                     {.grad_y = const_rows(grads),
                                      .x = const_rows(from),
                                      .dx = {},
                                      .weight = scale.const_data_ptr(),
                                      .rstd = rstd.const_data_ptr(),
                                      .width = width},
                                     dtype_of(scale), count, partials.data_ptr(), dweight.data_ptr(), on.stream());
  return dweight;
}

Tensor rms_norm_backward_add_cuda(Tensor& sum, const Tensor& grad, const Tensor& grad_y, const Tensor& x,
                                  const Tensor& weight, const Tensor& rstd) {
  const Tensor dweight = rms_norm_backward_add_result(sum, grad, grad_y, x, weight, rstd);
  return rms_norm_backward_into("plimsoll::rms_norm_backward_add", sum, {}, dweight, grad, grad_y, x, weight, rstd);
}

Tensor rms_norm_backward_add_cast_cuda(Tensor& sum, Tensor& copy, const Tensor& grad, const Tensor& grad_y,
                                       const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  const Tensor dweight = rms_norm_backward_add_cast_result(sum, copy, grad, grad_y, x, weight, rstd);
  return rms_norm_backward_into("plimsoll::rms_norm_backward_add_cast", sum, rows(copy), dweight, grad, grad_y, x,
                                weight, rstd);
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("add_rms_norm", add_rms_norm_cuda);
  m.impl("rms_norm_backward_add", rms_norm_backward_add_cuda);
  m.impl("rms_norm_backward_add_cast", rms_norm_backward_add_cast_cuda);
}

Tensor rope_cuda(const Tensor& x, int64_t position, double theta, bool inverse, at::ArrayRef<double> scaling) {
  Tensor result = rope_result(x, position, theta, inverse, scaling);
  const cuda::OnDevice on("plimsoll::rope", x);
  const Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  const std::vector<double> frequencies = rope_frequencies(x.size(3), theta, scaling);
  cuda::launch_rope(rope_arguments(from, result, frequencies.data(), position, inverse), on.stream());
  return result;
}

void rope_in_place_cuda(Tensor& x, int64_t position, double theta, bool inverse, at::ArrayRef<double> scaling) {
  require_rope_in_place(x, theta, scaling);
  const cuda::OnDevice on("plimsoll::rope_", x);
  const std::vector<double> frequencies = rope_frequencies(x.size(3), theta, scaling);
  cuda::launch_rope(rope_arguments(x, x, frequencies.data(), position, inverse), on.stream());
}

template <cuda::Gate gate>
Tensor gated_cuda(const Tensor& gate_up) {
  Tensor result = gated_result(gate == cuda::Gate::silu ? "plimsoll::swiglu" : "plimsoll::geglu", gate_up);
  const cuda::OnDevice on(gate == cuda::Gate::silu ? "plimsoll::swiglu" : "plimsoll::geglu", gate_up);
  const Tensor from = as_rows(gate_up);
  cuda::launch_gated(gate, const_rows(from), rows(result), row_count(result), result.size(-1), on.stream());
  return result;
}

template <cuda::Gate gate>
Tensor gated_backward_cuda(const Tensor& grad, const Tensor& gate_up) {
  const char* const op = gate == cuda::Gate::silu ? "plimsoll::swiglu_backward" : "plimsoll::geglu_backward";
  Tensor result = gated_gradient(op, grad, gate_up);
  const cuda::OnDevice on(op, gate_up, grad);
  const Tensor from = as_rows(gate_up), grad_rows = as_rows(grad);
  cuda::launch_gated_backward(gate, const_rows(grad_rows), const_rows(from), rows(result), row_count(grad),
                              grad.size(-1), on.stream());
  return result;
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("rope", rope_cuda);
  m.impl("rope_", rope_in_place_cuda);
  m.impl("swiglu", gated_cuda<cuda::Gate::silu>);
  m.impl("swiglu_backward", gated_backward_cuda<cuda::Gate::silu>);
  m.impl("geglu", gated_cuda<cuda::Gate::gelu>);
  m.impl("geglu_backward", gated_backward_cuda<cuda::Gate::gelu>);
}

std::tuple<Tensor, Tensor> rms_norm_cuda(const Tensor& x, const Tensor& weight, double eps,
                                         std::optional<at::ScalarType> out_dtype) {
  auto [y, rstd] = rms_norm_results(x, weight, eps, out_dtype);
  const cuda::OnDevice on("plimsoll::rms_norm", x, weight);
  const Tensor from = as_rows(x), scale = weight.contiguous();
  cuda::launch_rms_norm({.x = const_rows(from),
                         .y = rows(y),
                         .weight = scale.const_data_ptr(),
                         .rstd = rstd.data_ptr(),
                         .width = x.size(-1),
                         .eps = eps},
                        dtype_of(scale), row_count(x), on.stream());
  return {y, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward_cuda(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                  const Tensor& rstd) {
  auto [dx, dweight] = rms_norm_gradients(grad_y, x, weight, rstd);
  const cuda::OnDevice on("plimsoll::rms_norm_backward", x, grad_y, weight, rstd);
  const Tensor grad = as_rows(grad_y), from = as_rows(x), scale = weight.contiguous();
  const int64_t width = x.size(-1), count = row_count(x);
  const Tensor partials = at::empty({div_up(count, cuda_norm_block_rows(count)), width}, rstd.options());
  cuda::launch_rms_norm_backward({.grad_y = const_rows(grad),
                                  .x = const_rows(from),
                                  .dx = rows(dx),
                                  .weight = scale.const_data_ptr(),
                                  .rstd = rstd.const_data_ptr(),
                                  .width = width},
                                 dtype_of(scale), count, partials.data_ptr(), dweight.data_ptr(), on.stream());
  return {dx, dweight};
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("rms_norm", rms_norm_cuda);
  m.impl("rms_norm_backward", rms_norm_backward_cuda);
}

}  // namespace
}  // namespace plimsoll::ops

namespace plimsoll::cuda {
namespace {

using at::Tensor;
using Second = std::optional<Tensor>;
using namespace ops;

std::tuple<Tensor, Tensor> quantize_weight_cuda(const Tensor& weight, bool four_bits) {
  const OnDevice device("plimsoll::quantize_weight", weight);
  auto results = empty_quantized(weight, four_bits);
  const auto& [codes, scales] = results;
  const Tensor from = as_rows(weight);
  launch_quantize(const_rows(from), weight.size(0), weight.size(1), four_bits, codes.mutable_data_ptr(),
                  scales.mutable_data_ptr<float>(), device.stream());
  return results;
}

std::tuple<Tensor, Tensor> quantize_scales_cuda(const Tensor& scales) {
  const OnDevice device("plimsoll::quantize_scales", scales);
  auto results = empty_scale_codes(scales);
  const auto& [codes, second] = results;
  launch_quantize_scales(scales.const_data_ptr<float>(), scales.numel(), codes.mutable_data_ptr<uint8_t>(),
                         second.mutable_data_ptr<float>(), device.stream());
  return results;
}

Tensor dequantize_weight_cuda(const Tensor& codes, const Tensor& scales, const Second& second, int64_t width,
                              at::ScalarType dtype) {
  const OnDevice device("plimsoll::dequantize_weight", codes, scales, second);
  Tensor weight = empty_dequantized(codes, scales, second, width, dtype);
  launch_dequantize(quantized_view(codes, scales, second, width), rows(weight), 0, width, 0, codes.size(0),
                    device.stream());
  return weight;
}

// The weight is dequantized piece by piece in scratch and multiplied, as on the CPU.

Tensor quantized_linear_cuda(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  const OnDevice device("plimsoll::quantized_linear", x, codes, scales, second);
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
  const OnDevice device("plimsoll::quantized_linear_backward", grad, codes, scales, second);
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
