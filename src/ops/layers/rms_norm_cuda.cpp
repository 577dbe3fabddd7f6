
#include "ops/cuda_op_support.h"
#include "ops/layers/rms_norm.h"
#include "ops/layers/rms_norm_launch.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> rms_norm_cuda(const Tensor& x, const Tensor& weight, double eps,
                                         std::optional<at::ScalarType> out_dtype) {
  auto [y, rstd] = rms_norm_results(x, weight, eps, out_dtype);
  const cuda::OnDevice on(x);
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
  const cuda::OnDevice on(x);
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
