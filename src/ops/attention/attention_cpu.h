// Attention's CPU kernels; the operators are defined in attention.cpp, the arithmetic of blocks is in
// attention_rows_cpu.h, attention_softmax_cpu.h and block_products_cpu.h.
//
// Forward: a block of queries meets the blocks of keys that it sees one after the other, under a softmax that is
// brought up to date with each (T. Dao et al., "FlashAttention"; T. Dao, "FlashAttention-2"). Backward works the scores
// out again from what forward kept, one number a query. Keys that no query of a block sees are passed over.
//
// Products of bfloat16 are of pairs, with float32 sums, where the machine has them (AVX512-BF16) and the width is even:
// probabilities and the scores' gradients are rounded to bfloat16 for them, as libtorch's kernels do. Otherwise, and
// for float16, elements are widened to float32 block by block.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

struct AttentionCall {
  AttentionShape shape;
  double scale;
  double cap;          ///< 0: none
  at::Tensor q, k, v;  ///< [B, H, T, D], last elements side by side, else any strides
};

/// Writes `out` [B, Hq, T, D] and `logsumexp` [B, Hq, T] (any strides, last of `out` 1).
void attention_forward_cpu(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp);

/// Writes the three gradients (any strides, last of each 1). The same bits on any number of threads.
void attention_backward_cpu(const AttentionCall& call, const at::Tensor& grad_out, const at::Tensor& out,
                            const at::Tensor& logsumexp, const at::Tensor& dq, const at::Tensor& dk,
                            const at::Tensor& dv);

}  // namespace plimsoll::ops
