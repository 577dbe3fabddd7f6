// Declares attention on CUDA in blocks of queries, by libtorch's matmuls and our softmax.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

/// Writes `out` [B, Hq, T, D] and `logsumexp` [B, Hq, T]. Scores are float32 (float64 for float64). Matmuls of 16-bit
/// operands use them unconverted, with float32 sums. The probabilities are rounded to the operands' type for the second
/// matmul, as in flash kernels. `cap` 0: none. `stream`: the current stream of the operands' device, which is the
/// current device.
void attention_blocks_forward(const AttentionShape& shape, double scale, double cap, const at::Tensor& q,
                              const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                              const at::Tensor& logsumexp, cudaStream_t stream);

/// Writes the three gradients. The gradients of keys and values are summed in float32 over the blocks, in order.
void attention_blocks_backward(const AttentionShape& shape, double scale, double cap, const at::Tensor& grad_out,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& logsumexp, const at::Tensor& dq, const at::Tensor& dk,
                               const at::Tensor& dv, cudaStream_t stream);

}  // namespace plimsoll::ops
