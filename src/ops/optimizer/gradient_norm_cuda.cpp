
#include "ops/cuda_op_support.h"
#include "ops/cuda_plan.h"
#include "ops/optimizer/gradient_norm_check.h"
#include "ops/optimizer/gradient_norm_launch.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

void gradient_norm_cuda(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  check_gradient_norm(norms, skipped, gradient, index);
  const cuda::OnDevice on(gradient);
  // In whatever order the elements lie.
  const Tensor dense = gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
  const Tensor partials = at::empty({div_up(dense.numel(), kCudaNormBlock)}, gradient.options().dtype(at::kDouble));
  cuda::launch_gradient_norm(
      dense.const_data_ptr(), dtype_of(dense), dense.numel(), static_cast<double*>(partials.data_ptr()),
      norms.mutable_data_ptr<float>() + index * norms.stride(0), skipped.mutable_data_ptr<float>(), on.stream());
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("gradient_norm_", gradient_norm_cuda);
}

}  // namespace
}  // namespace plimsoll::ops
