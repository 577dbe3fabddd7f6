#include "ops/layers/quantized_linear.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "ops/layers/quantized_kernels_cpu.h"
#include "ops/layers/quantized_plan.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
using at::Tensor;
using Second = std::optional<Tensor>;

std::tuple<Tensor, Tensor> empty_quantized(const Tensor& weight, bool four_bits) {
  constexpr const char* op = "plimsoll::quantize_weight";
  require_floating(op, "weight", weight);
  require(weight.dim() == 2, op, "weight has shape ", weight.sizes(), "; it must be [rows, width]");
  const int64_t rows = weight.size(0), width = weight.size(1);
  return {four_bits ? at::empty({rows, div_up(width, 2)}, weight.options().dtype(at::kByte))
                    : at::empty({rows, width}, weight.options().dtype(at::kChar)),
          at::empty({rows, quantized_blocks(width)}, weight.options().dtype(at::kFloat))};
}

std::tuple<Tensor, Tensor> empty_scale_codes(const Tensor& scales) {
  constexpr const char* op = "plimsoll::quantize_scales";
  require(scales.dim() == 2 && scales.scalar_type() == at::kFloat && scales.is_contiguous(), op, "scales are ",
          c10::toString(scales.scalar_type()), " ", scales.sizes(), "; they must be contiguous float32 [rows, blocks]");
  return {at::empty(scales.sizes(), scales.options().dtype(at::kByte)),
          at::empty({div_up(scales.numel(), kScaleGroup) + 1}, scales.options())};
}

namespace {

/// Throws UserError unless the three tensors are a quantized weight of that width.
void require_weight(const char* op, const Tensor& codes, const Tensor& scales, const Second& second, int64_t width) {
  const bool four_bits = codes.scalar_type() == at::kByte;
  require(codes.dim() == 2 && (four_bits || codes.scalar_type() == at::kChar) && codes.is_contiguous(), op,
          "codes are ", c10::toString(codes.scalar_type()), " ", codes.sizes(),
          "; they must be contiguous int8 [rows, width] or uint8 [rows, width / 2]");
  require(codes.size(1) == (four_bits ? div_up(width, 2) : width), op, "codes of shape ", codes.sizes(),
          " are not of a weight of width ", width);
  const bool twice = second && second->defined();
  require(scales.dim() == 2 && scales.size(0) == codes.size(0) && scales.size(1) == quantized_blocks(width) &&
              scales.scalar_type() == (twice ? at::kByte : at::kFloat) && scales.is_contiguous(),
          op, "scales are ", c10::toString(scales.scalar_type()), " ", scales.sizes(), "; they must be contiguous ",
          twice ? "uint8 [" : "float32 [", codes.size(0), ", ", quantized_blocks(width), "]");
  require(!twice || (second->dim() == 1 && second->size(0) == div_up(scales.numel(), kScaleGroup) + 1 &&
                     second->scalar_type() == at::kFloat && second->is_contiguous()),
          op, "the second scales must be contiguous float32 [", div_up(scales.numel(), kScaleGroup) + 1, "]");
}

}  // namespace

QuantizedWeight quantized_view(const Tensor& codes, const Tensor& scales, const Second& second, int64_t width) {
  return {.codes = codes.const_data_ptr(),
          .scales = scales.const_data_ptr(),
          .second = second && second->defined() ? second->const_data_ptr<float>() : nullptr,
          .rows = codes.size(0),
          .width = width,
          .four_bits = codes.scalar_type() == at::kByte};
}

Tensor empty_dequantized(const Tensor& codes, const Tensor& scales, const Second& second, int64_t width,
                         at::ScalarType dtype) {
  constexpr const char* op = "plimsoll::dequantize_weight";
  require_weight(op, codes, scales, second, width);
  require(is_floating(dtype), op, "dtype is ", c10::toString(dtype), "; it must be a floating type");
  return at::empty({codes.size(0), width}, codes.options().dtype(dtype));
}

Tensor empty_quantized_linear(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  constexpr const char* op = "plimsoll::quantized_linear";
  require_floating(op, "x", x);
  require(x.dim() >= 1, op, "x has no dimensions");
  require_weight(op, codes, scales, second, x.size(-1));
  auto sizes = x.sizes().vec();
  sizes.back() = codes.size(0);
  return at::empty(sizes, x.options());
}

Tensor empty_quantized_linear_gradient(const Tensor& grad, const Tensor& codes, const Tensor& scales,
                                       const Second& second, int64_t width) {
  constexpr const char* op = "plimsoll::quantized_linear_backward";
  require_floating(op, "grad", grad);
  require_weight(op, codes, scales, second, width);
  require(grad.dim() >= 1 && grad.size(-1) == codes.size(0), op, "grad has shape ", grad.sizes(),
          "; its last dimension must be the weight's rows, ", codes.size(0));
  auto sizes = grad.sizes().vec();
  sizes.back() = width;
  return at::empty(sizes, grad.options());
}

Tensor as_matrix(const Tensor& x) {
  return (x.is_contiguous() ? x : contiguous_copy(x)).view({-1, x.size(-1)});
}

namespace {

std::tuple<Tensor, Tensor> quantize_weight_cpu(const Tensor& weight, bool four_bits) {
  auto results = empty_quantized(weight, four_bits);
  const auto& [codes, scales] = results;
  const Tensor from = as_rows(weight);
  const ConstRows in = const_rows(from);
  at::parallel_for(0, weight.size(0), row_grain(weight.size(1)), [&](int64_t begin, int64_t end) {
    quantize_rows(in, weight.size(1), four_bits, codes.mutable_data_ptr(), scales.mutable_data_ptr<float>(), begin,
                  end);
  });
  return results;
}

std::tuple<Tensor, Tensor> quantize_scales_cpu(const Tensor& scales) {
  auto results = empty_scale_codes(scales);
  const auto& [codes, second] = results;
  quantize_scales(scales.const_data_ptr<float>(), scales.numel(), codes.mutable_data_ptr<uint8_t>(),
                  second.mutable_data_ptr<float>());
  return results;
}

Tensor dequantize_weight_cpu(const Tensor& codes, const Tensor& scales, const Second& second, int64_t width,
                             at::ScalarType dtype) {
  Tensor weight = empty_dequantized(codes, scales, second, width, dtype);
  const QuantizedWeight from = quantized_view(codes, scales, second, width);
  const Rows out = rows(weight);
  at::parallel_for(0, from.rows, row_grain(width),
                   [&](int64_t begin, int64_t end) { dequantize_rows(from, out, 0, width, begin, end); });
  return weight;
}

/// Computes result = from x piece, a limited number of rows at a time.
void multiply(const Tensor& result, const Tensor& from, const Tensor& piece) {
  for (int64_t first = 0; first < from.size(0); first += kQuantizedProductRows) {
    const int64_t rows = std::min(kQuantizedProductRows, from.size(0) - first);
    Tensor part = result.narrow(0, first, rows);
    at::mm_out(part, from.narrow(0, first, rows), piece);
  }
}

Tensor quantized_linear_cpu(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  const Tensor y = empty_quantized_linear(x, codes, scales, second);
  if (y.numel() == 0) return y;
  if (x.size(-1) == 0) return y.zero_();
  const Tensor from = as_matrix(x), to = y.view({-1, y.size(-1)});
  const int64_t width = x.size(-1), rows_of_weight = codes.size(0);
  const int64_t tile_rows = quantized_tile_rows(rows_of_weight, width, x.element_size());
  const QuantizedWeight weight = quantized_view(codes, scales, second, width);
  const Tensor tile = at::empty({tile_rows, width}, x.options());
  for (int64_t first = 0; first < rows_of_weight; first += tile_rows) {
    const int64_t size = std::min(tile_rows, rows_of_weight - first);
    Rows out = rows(tile);
    out.data = static_cast<char*>(out.data) - first * width * x.element_size();  // row `first` is the tile's first row
    at::parallel_for(0, size, row_grain(width), [&](int64_t begin, int64_t end) {
      dequantize_rows(weight, out, 0, width, first + begin, first + end);
    });
    multiply(to.narrow(1, first, size), from, tile.narrow(0, 0, size).t());
  }
  return y;
}

Tensor quantized_linear_backward_cpu(const Tensor& grad, const Tensor& codes, const Tensor& scales,
                                     const Second& second, int64_t width) {
  const Tensor dx = empty_quantized_linear_gradient(grad, codes, scales, second, width);
  if (dx.numel() == 0) return dx;
  if (grad.size(-1) == 0) return dx.zero_();
  const Tensor from = as_matrix(grad), to = dx.view({-1, width});
  const int64_t rows_of_weight = codes.size(0);
  const int64_t columns = quantized_tile_columns(rows_of_weight, width, grad.element_size());
  const QuantizedWeight weight = quantized_view(codes, scales, second, width);
  const Tensor tile = at::empty({rows_of_weight * std::min(columns, width)}, grad.options());
  for (int64_t first = 0; first < width; first += columns) {
    const int64_t size = std::min(columns, width - first);
    const Tensor piece = tile.narrow(0, 0, rows_of_weight * size).view({rows_of_weight, size});
    const Rows out = rows(piece);
    at::parallel_for(0, rows_of_weight, row_grain(size),
                     [&](int64_t begin, int64_t end) { dequantize_rows(weight, out, first, size, begin, end); });
    multiply(to.narrow(1, first, size), from, piece);
  }
  return dx;
}

using LinearForward = Tensor(const Tensor&, const Tensor&, const Tensor&, const Second&);
using LinearBackward = Tensor(const Tensor&, const Tensor&, const Tensor&, const Second&, int64_t);

Tensor call_forward(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  static const auto handle = operator_handle<LinearForward>("plimsoll::quantized_linear");
  return handle.call(x, codes, scales, second);
}

struct QuantizedLinear : torch::autograd::Function<QuantizedLinear> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& codes,
                        const Tensor& scales, const Second& second) {
    at::AutoDispatchBelowADInplaceOrView below;
    // The weight exists anyway; of x only the width is needed.
    context->save_for_backward({codes, scales, second.value_or(Tensor())});
    context->saved_data["width"] = x.size(-1);
    return call_forward(x, codes, scales, second);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<LinearBackward>("plimsoll::quantized_linear");
    torch::autograd::variable_list gradients(4);
    if (!grads[0].defined()) return gradients;
    const auto saved = context->get_saved_variables();
    const Second second = saved[2].defined() ? Second(saved[2]) : std::nullopt;
    gradients[0] = handle.call(grads[0], saved[0], saved[1], second, context->saved_data["width"].toInt());
    return gradients;
  }
};

Tensor quantized_linear_autograd(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  return QuantizedLinear::apply(x, codes, scales, second);
}

template <c10::DeviceType device>
Tensor quantized_linear_autocast(const Tensor& x, const Tensor& codes, const Tensor& scales, const Second& second) {
  const AutocastOff off(device);
  return call_forward(x.scalar_type() == at::kDouble ? x : autocast(x, device), codes, scales, second);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("quantize_weight(Tensor weight, bool four_bits) -> (Tensor codes, Tensor scales)");
  m.def("quantize_scales(Tensor scales) -> (Tensor codes, Tensor second)");
  m.def("dequantize_weight(Tensor codes, Tensor scales, Tensor? second, int width, ScalarType dtype) -> Tensor");
  m.def("quantized_linear(Tensor x, Tensor codes, Tensor scales, Tensor? second) -> Tensor");
  m.def("quantized_linear_backward(Tensor grad, Tensor codes, Tensor scales, Tensor? second, int width) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("quantize_weight", empty_quantized);
  m.impl("quantize_scales", empty_scale_codes);
  m.impl("dequantize_weight", empty_dequantized);
  m.impl("quantized_linear", empty_quantized_linear);
  m.impl("quantized_linear_backward", empty_quantized_linear_gradient);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("quantize_weight", quantize_weight_cpu);
  m.impl("quantize_scales", quantize_scales_cpu);
  m.impl("dequantize_weight", dequantize_weight_cpu);
  m.impl("quantized_linear", quantized_linear_cpu);
  m.impl("quantized_linear_backward", quantized_linear_backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("quantized_linear", quantized_linear_autograd);
  for (const char* name : {"quantize_weight", "quantize_scales", "dequantize_weight", "quantized_linear_backward"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}
PLIMSOLL_AUTOCAST("quantized_linear", quantized_linear_autocast)

QuantizedTensors quantize_weight(const Tensor& weight, const std::string& format, bool double_scales) {
  require(format == "nf4" || format == "int8", "plimsoll::quantize_weight", "format is '", format,
          "'; allowed are nf4 and int8");
  static const auto quantize =
      operator_handle<std::tuple<Tensor, Tensor>(const Tensor&, bool)>("plimsoll::quantize_weight");
  static const auto again = operator_handle<std::tuple<Tensor, Tensor>(const Tensor&)>("plimsoll::quantize_scales");
  const at::NoGradGuard no_grad;
  QuantizedTensors result;
  std::tie(result.codes, result.scales) = quantize.call(weight, format == "nf4");
  if (double_scales) std::tie(result.scales, result.second) = again.call(result.scales);
  return result;
}

Tensor dequantize_weight(const QuantizedTensors& weight, int64_t width, at::ScalarType dtype) {
  static const auto handle =
      operator_handle<Tensor(const Tensor&, const Tensor&, const Second&, int64_t, at::ScalarType)>(
          "plimsoll::dequantize_weight");
  const at::NoGradGuard no_grad;
  return handle.call(weight.codes, weight.scales, weight.second.defined() ? Second(weight.second) : std::nullopt, width,
                     dtype);
}

Tensor quantized_linear(const Tensor& x, const QuantizedTensors& weight) {
  return call_forward(x, weight.codes, weight.scales, weight.second.defined() ? Second(weight.second) : std::nullopt);
}

}  // namespace plimsoll::ops
