#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cstring>

#include "ops/kernels_cpu.h"
#include "ops/layers/rms_norm.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using OutDType = std::optional<at::ScalarType>;

/// Throws UserError unless `sum` can hold the sum of a and a tensor of `other_sizes` and of type `other`.
void require_sum(const char* op, const Tensor& sum, const Tensor& a, at::IntArrayRef other_sizes,
                 at::ScalarType other) {
  const at::ScalarType type = sum.scalar_type(), of_a = a.scalar_type();
  require_floating(op, "sum", sum);
  require(a.sizes() == sum.sizes() && other_sizes == sum.sizes(), op, "operands of shape ", a.sizes(), " and ",
          other_sizes, " are added to a sum of shape ", sum.sizes());
  const auto goes_in = [&](at::ScalarType each) {
    return each == type || (type == at::kFloat && (each == at::kBFloat16 || each == at::kHalf));
  };
  require(goes_in(of_a) && goes_in(other) && (of_a == type || other == type), op, "the sum of ", c10::toString(of_a),
          " and ", c10::toString(other), " is not ", c10::toString(type));
  require(row_stride(sum.sizes(), sum.strides()).has_value(), op, "sum has strides ", sum.strides(),
          "; its rows must be one stride apart");
}

Rows from_row(Rows rows, int64_t row) {
  rows.data = static_cast<char*>(rows.data) + row * rows.stride * element_bytes(rows.dtype);
  return rows;
}
ConstRows from_row(ConstRows rows, int64_t row) {
  rows.data = static_cast<const char*>(rows.data) + row * rows.stride * element_bytes(rows.dtype);
  return rows;
}

}  // namespace

std::tuple<Tensor, Tensor> add_rms_norm_results(Tensor& sum, const Tensor& a, const Tensor& b, const Tensor& weight,
                                                double eps, OutDType out_dtype) {
  require_sum("plimsoll::add_rms_norm", sum, a, b.sizes(), b.scalar_type());
  return rms_norm_results(sum, weight, eps, out_dtype);
}

Tensor rms_norm_backward_add_result(Tensor& sum, const Tensor& grad, const Tensor& grad_y, const Tensor& x,
                                    const Tensor& weight, const Tensor& rstd) {
  constexpr const char* op = "plimsoll::rms_norm_backward_add";
  require(grad_y.sizes() == x.sizes(), op, "grad_y has shape ", grad_y.sizes(), " and x ", x.sizes());
  require_sum(op, sum, grad, x.sizes(), x.scalar_type());
  return at::empty(weight.sizes(), weight.options());
}

Tensor rms_norm_backward_add_cast_result(Tensor& sum, Tensor& copy, const Tensor& grad, const Tensor& grad_y,
                                         const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  constexpr const char* op = "plimsoll::rms_norm_backward_add_cast";
  require(sum.scalar_type() == at::kFloat && copy.sizes() == sum.sizes() &&
              (copy.scalar_type() == at::kBFloat16 || copy.scalar_type() == at::kHalf),
          op, "a ", c10::toString(sum.scalar_type()), " sum of shape ", sum.sizes(), " is copied to ",
          c10::toString(copy.scalar_type()), " of shape ", copy.sizes(),
          "; allowed is a float32 sum that is copied to 16 bits of its shape");
  require(row_stride(copy.sizes(), copy.strides()).has_value(), op, "the copy has strides ", copy.strides(),
          "; its rows must be one stride apart");
  return rms_norm_backward_add_result(sum, grad, grad_y, x, weight, rstd);
}

namespace {

std::tuple<Tensor, Tensor> add_rms_norm_cpu(Tensor& sum, const Tensor& a, const Tensor& b, const Tensor& weight,
                                            double eps, OutDType out_dtype) {
  auto [y, rstd] = add_rms_norm_results(sum, a, b, weight, eps, out_dtype);
  const Tensor from_a = as_rows(a), from_b = as_rows(b), scale = weight.to(rstd.scalar_type()).contiguous();
  const int64_t width = sum.size(-1), count = row_count(sum), rows_per_pass = rows_per_pass_of(count, width);
  const AddRows add{.a = const_rows(from_a), .b = const_rows(from_b), .sum = rows(sum), .width = width};
  const RmsNorm norm{.x = const_rows(sum),
                     .y = rows(y),
                     .weight = scale.const_data_ptr(),
                     .rstd = rstd.data_ptr(),
                     .width = width,
                     .eps = eps};
  at::parallel_for(0, count, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += rows_per_pass) {
      const int64_t last = std::min(end, row + rows_per_pass);
      add_rows(add, row, last);
      rms_norm_rows(norm, row, last);
    }
  });
  return {y, rstd};
}

Tensor rms_norm_backward_add_cpu(Tensor& sum, const Tensor& grad, const Tensor& grad_y, const Tensor& x,
                                 const Tensor& weight, const Tensor& rstd) {
  Tensor dweight = rms_norm_backward_add_result(sum, grad, grad_y, x, weight, rstd);
  const Tensor before = as_rows(grad), grads = as_rows(grad_y), from = as_rows(x),
               scale = weight.to(rstd.scalar_type()).contiguous();
  const int64_t width = x.size(-1), count = row_count(x), block = norm_block_rows(count), blocks = div_up(count, block);
  const int64_t rows_per_pass = rows_per_pass_of(count, width);
  const Tensor partials = at::empty({blocks, width}, rstd.options());
  // Some rows of dx per thread: dx is rounded to x's type before it is added, as if it were a tensor.
  const Tensor some_dx = at::empty({at::get_num_threads(), rows_per_pass, width}, x.options());
  const ConstRows old = const_rows(before);
  const Rows made = rows(sum);
  const RmsNormBackward norm{.grad_y = const_rows(grads),
                             .x = const_rows(from),
                             .dx = {},
                             .weight = scale.const_data_ptr(),
                             .rstd = rstd.const_data_ptr(),
                             .width = width};
  auto* partial = static_cast<char*>(partials.data_ptr());
  const int64_t partial_bytes = width * partials.element_size(), rstd_bytes = rstd.element_size();
  const auto run_pass = [&](const Rows& dx, void* sums, int64_t begin, int64_t end) {
    RmsNormBackward some = norm;
    some.grad_y = from_row(norm.grad_y, begin);
    some.x = from_row(norm.x, begin);
    some.dx = dx;
    some.rstd = static_cast<const char*>(norm.rstd) + begin * rstd_bytes;
    rms_norm_backward_rows(some, sums, 0, end - begin);
    const AddRows add{
        .a = from_row(old, begin), .b = {dx.data, dx.dtype, dx.stride}, .sum = from_row(made, begin), .width = width};
    add_rows(add, 0, end - begin);
  };
  at::parallel_for(0, blocks, div_up(row_grain(width), block), [&](int64_t begin, int64_t end) {
    char* const own = static_cast<char*>(some_dx.data_ptr()) +
                      at::get_thread_num() * rows_per_pass * width * static_cast<int64_t>(some_dx.element_size());
    const Rows dx{own, dtype_of(x), width};
    for (int64_t b = begin; b < end; ++b) {
      char* const sums = partial + b * partial_bytes;
      std::memset(sums, 0, static_cast<size_t>(partial_bytes));
      const int64_t last = std::min(count, (b + 1) * block);
      for (int64_t row = b * block; row < last; row += rows_per_pass)
        run_pass(dx, sums, row, std::min(last, row + rows_per_pass));
    }
  });
  at::parallel_for(0, width, 1024, [&](int64_t begin, int64_t end) {
    sum_partials(partial, blocks, width, dtype_of(partials), dweight.data_ptr(), dtype_of(dweight), begin, end);
  });
  return dweight;
}

Tensor rms_norm_backward_add_cast_cpu(Tensor& sum, Tensor& copy, const Tensor& grad, const Tensor& grad_y,
                                      const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  rms_norm_backward_add_cast_result(sum, copy, grad, grad_y, x, weight, rstd);  // checks
  Tensor dweight = rms_norm_backward_add_cpu(sum, grad, grad_y, x, weight, rstd);
  copy.copy_(sum);
  return dweight;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "add_rms_norm(Tensor(a!) sum, Tensor a, Tensor b, Tensor weight, float eps, ScalarType? out_dtype=None) -> "
      "(Tensor y, Tensor rstd)");
  m.def(
      "rms_norm_backward_add(Tensor(a!) sum, Tensor grad, Tensor grad_y, Tensor x, Tensor weight, Tensor rstd) -> "
      "Tensor dweight");
  m.def(
      "rms_norm_backward_add_cast(Tensor(a!) sum, Tensor(b!) copy, Tensor grad, Tensor grad_y, Tensor x, Tensor "
      "weight, Tensor rstd) -> Tensor dweight");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("add_rms_norm", add_rms_norm_results);
  m.impl("rms_norm_backward_add", rms_norm_backward_add_result);
  m.impl("rms_norm_backward_add_cast", rms_norm_backward_add_cast_result);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("add_rms_norm", add_rms_norm_cpu);
  m.impl("rms_norm_backward_add", rms_norm_backward_add_cpu);
  m.impl("rms_norm_backward_add_cast", rms_norm_backward_add_cast_cpu);
}

}  // namespace plimsoll::ops
