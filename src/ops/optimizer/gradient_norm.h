// Declares the norm of one parameter's gradient and the check that it is finite. Clipping and the skipping of a step
// depend on them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace plimsoll::ops {

/// Elements of a gradient that are summed as one block; sums of blocks are added in order. Slices of a gradient begin
/// at multiples of it. Ranks that each have a slice therefore compute the same norm as one rank.
constexpr int64_t kNormBlock = 1024;

/// Computes norms[index] = the 2-norm of `gradient` (any shape, a floating dtype), summed in float64 in an order that
/// does not depend on the thread count. Sets `skipped` to 1 if the norm is not finite, and leaves it unchanged
/// otherwise. `norms`: float32 [n]; `skipped`: float32, no dimensions. Operator plimsoll::gradient_norm_. Throws
/// UserError for other dtypes, or an index that is not in `norms`.
void gradient_norm_(const at::Tensor& norms, const at::Tensor& skipped, const at::Tensor& gradient, int64_t index);

/// Computes norms[index[i]] = the norm of gradients[i], for each i, with the bits of gradient_norm_(). On CUDA 64 norms
/// take two launches, as one does alone. All gradients have one dtype; `index` has no duplicates. Operator
/// plimsoll::gradient_norm_group_, which passes/group_updates makes.
void gradient_norm_group_(const at::Tensor& norms, const at::Tensor& skipped, at::TensorList gradients,
                          at::IntArrayRef index);

/// Computes sums[first + b] = the sum of squares of block b of `gradient` (flat, a floating dtype), in float64, with
/// the bits of gradient_norm_(). `sums`: float64 [m]. Operator plimsoll::gradient_block_sums_. Throws UserError for
/// other dtypes, or if `sums` does not have these blocks.
void gradient_block_sums_(const at::Tensor& sums, const at::Tensor& gradient, int64_t first);

/// Computes norms of gradients from the sums of their blocks on all ranks: norms[index[i]] for each i, as
/// gradient_norm_() computes it. `sums`: float64 [ranks * m]. The blocks of gradient i are blocks[i] blocks from
/// first[i] on, of each rank in turn. Operator plimsoll::norms_of_blocks_.
void norms_of_blocks_(const at::Tensor& norms, const at::Tensor& skipped, const at::Tensor& sums, int64_t ranks,
                      at::IntArrayRef index, at::IntArrayRef first, at::IntArrayRef blocks);

/// Throw UserError for arguments that do not belong together. The functions are also the Meta kernels.
void check_gradient_norm(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& gradient, int64_t index);
void check_gradient_norm_group(at::Tensor& norms, at::Tensor& skipped, at::TensorList gradients, at::IntArrayRef index);
void check_block_sums(at::Tensor& sums, const at::Tensor& gradient, int64_t first);
void check_norms_of_blocks(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& sums, int64_t ranks,
                           at::IntArrayRef index, at::IntArrayRef first, at::IntArrayRef blocks);

}  // namespace plimsoll::ops
