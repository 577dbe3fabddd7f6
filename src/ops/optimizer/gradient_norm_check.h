// Declares the check of gradient_norm_, which has no results of its own, for the kernels of every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace plimsoll::ops {

/// Throws UserError for arguments that do not belong together. Is the Meta kernel too.
void check_gradient_norm(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& gradient, int64_t index);

}  // namespace plimsoll::ops
