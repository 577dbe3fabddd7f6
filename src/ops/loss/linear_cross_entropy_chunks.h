// linear_cross_entropy chunk by chunk: the matrix products and the sums over chunks, which are libtorch's on every
// device. What is done to a chunk's logits is the device's.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ops/kernel_arguments.h"

namespace plimsoll::ops {

/// Each for so many rows.
struct LossKernels {
  int64_t chunk_bytes;  ///< the most of a chunk's logits
  std::function<void(const CrossEntropy&, int64_t rows)> cross_entropy;
  std::function<void(const SplitAdd&, int64_t rows)> split_add;
};

/// One loss a token ([tokens], of the accumulator's type) and, where `grad_x` and `grad_weight` have elements, the
/// gradients of the sum of the losses. Its scratch: `losses`, a chunk's logits, copies of x and weight that are no
/// matrices of rows, and what sums of 16-bit gradients need.
at::Tensor linear_cross_entropy_chunks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                       int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                                       const at::Tensor& grad_weight, const LossKernels& kernels);

}  // namespace plimsoll::ops
