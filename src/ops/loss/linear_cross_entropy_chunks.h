// Declares linear_cross_entropy chunk by chunk. The matmuls and the sums over chunks are libtorch's on every
// device. Each device has its own kernels for a chunk's logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ops/kernel_arguments.h"

namespace plimsoll::ops {

/// The kernels of a device; each call processes `rows` rows.
struct LossKernels {
  int64_t chunk_bytes;  ///< maximum bytes of a chunk's logits
  std::function<void(const CrossEntropy&, int64_t rows)> cross_entropy;
  std::function<void(const SplitAdd&, int64_t rows)> split_add;
};

/// Returns one loss a token ([tokens], of the accumulator's type). If `grad_x` and `grad_weight` have elements, it also
/// writes the gradients of the sum of the losses. Its scratch: `losses`, a chunk's logits, copies of x and weight that
/// are no matrices of rows, and the scratch of sums of 16-bit gradients.
at::Tensor linear_cross_entropy_chunks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                       int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                                       const at::Tensor& grad_weight, const LossKernels& kernels);

}  // namespace plimsoll::ops
