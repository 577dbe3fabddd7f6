// Declares the CPU kernel of linear_cross_entropy; the operators are defined in linear_cross_entropy.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// Writes the mean loss and the number of targets that count (at least 1) to the scalars `loss` and `count`; `count`
/// may be undefined. If `grad_x` and `grad_weight` have elements, it writes the gradients of the sum of the losses to
/// them.
void linear_cross_entropy_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                              int64_t ignore_index, double softcap, const at::Tensor& loss, const at::Tensor& count,
                              const at::Tensor& grad_x, const at::Tensor& grad_weight);

}  // namespace plimsoll::ops
