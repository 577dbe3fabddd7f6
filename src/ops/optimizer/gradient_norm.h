// The norm of one parameter's gradient, and whether it is finite: what clipping and the skipping of a step go by.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// norms[index] = the 2-norm of `gradient` (any shape, a floating dtype), summed in float64 in an order that does not
/// depend on the thread count; `skipped` = 1 if that is not finite, and is left alone otherwise.
/// `norms`: float32 [n]; `skipped`: float32, no dimensions. Operator plimsoll::gradient_norm_. Throws UserError for
/// other dtypes, or an index that is not in `norms`.
void gradient_norm_(const at::Tensor& norms, const at::Tensor& skipped, const at::Tensor& gradient, int64_t index);

}  // namespace plimsoll::ops
