// Declares the checks and results of rms_norm, for the kernels of every device. Each function throws UserError for
// tensors that do not belong together, and returns results that are not filled yet. The functions are the Meta kernels
// too, so that a kernel allocates exactly the results that were planned.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace plimsoll::ops {

/// Returns y and rstd.
std::tuple<at::Tensor, at::Tensor> rms_norm_results(const at::Tensor& x, const at::Tensor& weight, double eps,
                                                    std::optional<at::ScalarType> out_dtype);
/// Returns dx and dweight.
std::tuple<at::Tensor, at::Tensor> rms_norm_gradients(const at::Tensor& grad_y, const at::Tensor& x,
                                                      const at::Tensor& weight, const at::Tensor& rstd);

}  // namespace plimsoll::ops
