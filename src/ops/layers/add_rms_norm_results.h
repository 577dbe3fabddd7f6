// A sum and rms_norm of it, and rms_norm's backward with the sum that its dx goes into, each in one reading: what
// passes/fuse_norms makes of two ops. Operators for replay, below autograd:
//
//     add_rms_norm           sum = a + b;      y, rstd = rms_norm(sum, weight)
//     rms_norm_backward_add  dx, dweight = rms_norm_backward(grad_y, x, weight, rstd);      sum = grad + dx
//
// Every value is rounded to the type that it has between the two operators, so on the CPU the bits are theirs. `sum` is
// rows one stride apart and may lie where an operand of the sum lies, element for element; nowhere else.
//
// The functions check arguments for the kernels of every device (UserError) and give the results, with nothing in them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace plimsoll::ops {

/// y and rstd.
std::tuple<at::Tensor, at::Tensor> add_rms_norm_results(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                                                        const at::Tensor& weight, double eps,
                                                        std::optional<at::ScalarType> out_dtype);
/// dweight.
at::Tensor rms_norm_backward_add_result(at::Tensor& sum, const at::Tensor& grad, const at::Tensor& grad_y,
                                        const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd);

}  // namespace plimsoll::ops
