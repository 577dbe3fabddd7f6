// Declares root mean square normalization (B. Zhang, R. Sennrich) as one operator, and the checks and results of it
// and of its fusions with a sum, for the kernels of every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace plimsoll::ops {

/// Computes x / sqrt(mean(x^2) + eps) * weight over the last dimension of x [..., D]; weight [D]. Arithmetic is float32
/// (float64 for float64). The result is contiguous and of x's dtype; under autocast only the result has the lower
/// precision, x and weight are not cast. For backward it keeps x and one float32 a row. The gradient of a row of zeros
/// is that of x * weight, without the factor 1 / sqrt(eps): the gradient of a blank input stays finite behind any
/// number of norms. If eps is below 0, -eps is meant, and a row of zeros has that factor too, as in libtorch.
/// `out_dtype`: the result's dtype, also under autocast.
/// Operators plimsoll::rms_norm and plimsoll::rms_norm_backward. Throws UserError if the shapes do not agree.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps = 1e-5,
                    std::optional<at::ScalarType> out_dtype = std::nullopt);

// The checks and results of rms_norm, for the kernels of every device. Each function throws UserError for tensors that
// do not belong together, and returns results that are not filled yet. The functions are the Meta kernels too, so that
// a kernel allocates exactly the results that were planned.

/// Returns y and rstd.
std::tuple<at::Tensor, at::Tensor> rms_norm_results(const at::Tensor& x, const at::Tensor& weight, double eps,
                                                    std::optional<at::ScalarType> out_dtype);
/// Returns dx and dweight.
std::tuple<at::Tensor, at::Tensor> rms_norm_gradients(const at::Tensor& grad_y, const at::Tensor& x,
                                                      const at::Tensor& weight, const at::Tensor& rstd);

// The results of two fused operators that each read their operands once, checked in the same way. One is a sum with the
// rms_norm of it, the other rms_norm's backward with the sum that its dx enters. passes/fuse_norms makes each from two
// ops. They are operators for replay, below autograd:
//
//     add_rms_norm           sum = a + b;      y, rstd = rms_norm(sum, weight)
//     rms_norm_backward_add  dx, dweight = rms_norm_backward(grad_y, x, weight, rstd);      sum = grad + dx
//
// Every value is rounded to the type that it has between the two operators, so on the CPU the bits are theirs. `sum` is
// rows of one constant stride. It may share the memory of an operand of the sum, element for element, and must not
// overlap other operands.

/// Returns y and rstd.
std::tuple<at::Tensor, at::Tensor> add_rms_norm_results(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                                                        const at::Tensor& weight, double eps,
                                                        std::optional<at::ScalarType> out_dtype);
/// Returns dweight.
at::Tensor rms_norm_backward_add_result(at::Tensor& sum, const at::Tensor& grad, const at::Tensor& grad_y,
                                        const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd);
/// Returns dweight. `copy` receives the float32 sum in 16 bits.
at::Tensor rms_norm_backward_add_cast_result(at::Tensor& sum, at::Tensor& copy, const at::Tensor& grad,
                                             const at::Tensor& grad_y, const at::Tensor& x, const at::Tensor& weight,
                                             const at::Tensor& rstd);

}  // namespace plimsoll::ops
