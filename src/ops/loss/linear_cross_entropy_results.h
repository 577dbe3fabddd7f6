// Declares the checks and results of linear_cross_entropy, for the kernels of every device. Each function throws
// UserError for tensors that do not belong together, and returns results that are not filled yet. The functions are the
// Meta kernels too, so that a kernel allocates exactly the results that were planned.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace plimsoll::ops {

/// Returns the loss.
at::Tensor loss_result(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets, int64_t ignore_index,
                       double softcap);
/// Returns the loss, the count of targets that are not ignored, and the gradients of x and weight. A gradient that is
/// not requested is empty.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> loss_and_gradient_results(const at::Tensor& x,
                                                                                     const at::Tensor& weight,
                                                                                     const at::Tensor& targets,
                                                                                     int64_t ignore_index, bool wants_x,
                                                                                     bool wants_weight, double softcap);

}  // namespace plimsoll::ops
