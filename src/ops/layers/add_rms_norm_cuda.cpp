#include "ops/cuda_op_support.h"
#include "ops/layers/rms_norm.h"
#include "ops/layers/rms_norm_launch.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> add_rms_norm_cuda(Tensor& sum, const Tensor& a, const Tensor& b, const Tensor& weight,
                                             double eps, std::optional<at::ScalarType> out_dtype) {
  auto [y, rstd] = add_rms_norm_results(sum, a, b, weight, eps, out_dtype);
  const cuda::OnDevice on(sum);
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

Tensor rms_norm_backward_add_cuda(Tensor& sum, const Tensor& grad, const Tensor& grad_y, const Tensor& x,
                                  const Tensor& weight, const Tensor& rstd) {
  Tensor dweight = rms_norm_backward_add_result(sum, grad, grad_y, x, weight, rstd);
  const cuda::OnDevice on(x);
  const Tensor before = as_rows(grad), grads = as_rows(grad_y), from = as_rows(x), scale = weight.contiguous();
  const int64_t width = x.size(-1), count = row_count(x);
  const Tensor partials = at::empty({div_up(count, cuda_norm_block_rows(count)), width}, rstd.options());
  cuda::launch_rms_norm_backward_add({.a = const_rows(before), .b = {}, .sum = rows(sum), .width = width},
                                     {.grad_y = const_rows(grads),
                                      .x = const_rows(from),
                                      .dx = {},
                                      .weight = scale.const_data_ptr(),
                                      .rstd = rstd.const_data_ptr(),
                                      .width = width},
                                     dtype_of(scale), count, partials.data_ptr(), dweight.data_ptr(), on.stream());
  return dweight;
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("add_rms_norm", add_rms_norm_cuda);
  m.impl("rms_norm_backward_add", rms_norm_backward_add_cuda);
}

}  // namespace
}  // namespace plimsoll::ops
