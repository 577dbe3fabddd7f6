// Declares the checks of gradient_norm_ and its parts, which have no results of their own, for the kernels of every
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace plimsoll::ops {

/// Throw UserError for arguments that do not belong together. The functions are also the Meta kernels.
void check_gradient_norm(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& gradient, int64_t index);
void check_block_sums(at::Tensor& sums, const at::Tensor& gradient, int64_t first);
void check_norms_of_blocks(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& sums, int64_t ranks,
                           at::IntArrayRef index, at::IntArrayRef first, at::IntArrayRef blocks);

}  // namespace plimsoll::ops
