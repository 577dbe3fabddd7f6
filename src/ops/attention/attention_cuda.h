// Declares attention on CUDA in blocks of queries, by libtorch's matmuls and our softmax.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

/// The operands of attention in blocks.
struct BlocksCall {
  AttentionShape shape;
  double scale, cap;  ///< cap 0: none
  at::Tensor q, k, v;
  at::Tensor mask = {};  ///< [B, Hq, T, S], boolean or floating-point, any strides; undefined: none
  double dropout = 0;    ///< probability to drop a probability
  at::Tensor seed = {};  ///< with dropout: one int64 in the device's memory, which only kernels read
};

/// Writes `out` [B, Hq, T, D] and `logsumexp` [B, Hq, T], with a mask [B, Hq, T, 2] (ScoreRows). Scores are float32
/// (float64 for float64). Matmuls of 16-bit operands use them unconverted, with float32 sums. The probabilities are
/// rounded to the operands' type for the second matmul, as in flash kernels. `stream`: the current stream of the
/// operands' device, which is the current device.
void attention_blocks_forward(const BlocksCall& call, const at::Tensor& out, const at::Tensor& logsumexp,
                              cudaStream_t stream);

/// Writes the three gradients. The gradients of keys and values are summed in float32 over the blocks, in order.
void attention_blocks_backward(const BlocksCall& call, const at::Tensor& grad_out, const at::Tensor& logsumexp,
                               const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, cudaStream_t stream);

}  // namespace plimsoll::ops
