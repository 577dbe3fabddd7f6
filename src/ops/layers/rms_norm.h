// Declares root mean square normalization (B. Zhang, R. Sennrich) as one operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// Computes x / sqrt(mean(x^2) + eps) * weight over the last dimension of x [..., D]; weight [D]. Arithmetic is float32
/// (float64 for float64). The result is contiguous and of x's dtype; under autocast only the result has the lower
/// precision, x and weight are not cast. For backward it keeps x and one float32 a row. The gradient of a row of zeros
/// is that of x * weight, without the factor 1 / sqrt(eps): the gradient of a blank input stays finite behind any
/// number of norms.
/// Operators plimsoll::rms_norm and plimsoll::rms_norm_backward. Throws UserError if the shapes do not agree.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps = 1e-5);

}  // namespace plimsoll::ops
