// The norm of one parameter's gradient, and whether it is finite: what clipping and the skipping of a step go by.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// Elements of a gradient that are summed as one block; sums of blocks are added in order. Slices of a gradient begin
/// at multiples of it, so that ranks that each have a slice get the norm that one rank gets.
constexpr int64_t kNormBlock = 1024;

/// norms[index] = the 2-norm of `gradient` (any shape, a floating dtype), summed in float64 in an order that does not
/// depend on the thread count; `skipped` = 1 if that is not finite, and is left alone otherwise.
/// `norms`: float32 [n]; `skipped`: float32, no dimensions. Operator plimsoll::gradient_norm_. Throws UserError for
/// other dtypes, or an index that is not in `norms`.
void gradient_norm_(const at::Tensor& norms, const at::Tensor& skipped, const at::Tensor& gradient, int64_t index);

/// sums[first + b] = the sum of squares of block b of `gradient` (flat, a floating dtype), in float64, as
/// gradient_norm_() makes them. `sums`: float64 [m]. Operator plimsoll::gradient_block_sums_. Throws UserError for
/// other dtypes, or if `sums` does not have these blocks.
void gradient_block_sums_(const at::Tensor& sums, const at::Tensor& gradient, int64_t first);

/// Norms of gradients from the sums of their blocks on all ranks, for each i as gradient_norm_() makes norms[index[i]].
/// `sums`: float64 [ranks * m]; the blocks of gradient i are those from first[i] on, blocks[i] of them, of each rank
/// in turn. Operator plimsoll::norms_of_blocks_.
void norms_of_blocks_(const at::Tensor& norms, const at::Tensor& skipped, const at::Tensor& sums, int64_t ranks,
                      at::IntArrayRef index, at::IntArrayRef first, at::IntArrayRef blocks);

}  // namespace plimsoll::ops
