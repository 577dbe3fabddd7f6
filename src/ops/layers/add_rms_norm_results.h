// Declares the results of two fused operators that each read their operands once. One is a sum with the rms_norm of it,
// the other rms_norm's backward with the sum that its dx enters. passes/fuse_norms makes each from two ops. They are
// operators for replay, below autograd:
//
//     add_rms_norm           sum = a + b;      y, rstd = rms_norm(sum, weight)
//     rms_norm_backward_add  dx, dweight = rms_norm_backward(grad_y, x, weight, rstd);      sum = grad + dx
//
// Every value is rounded to the type that it has between the two operators, so on the CPU the bits are theirs. `sum` is
// rows of one constant stride. It may share the memory of an operand of the sum, element for element, and must not
// overlap other operands.
//
// The functions check arguments for the kernels of every device (UserError) and return results that are not filled yet.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace plimsoll::ops {

/// Returns y and rstd.
std::tuple<at::Tensor, at::Tensor> add_rms_norm_results(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                                                        const at::Tensor& weight, double eps,
                                                        std::optional<at::ScalarType> out_dtype);
/// Returns dweight.
at::Tensor rms_norm_backward_add_result(at::Tensor& sum, const at::Tensor& grad, const at::Tensor& grad_y,
                                        const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd);

}  // namespace plimsoll::ops
