// Declares attention's CPU kernels. The operators are defined in attention.cpp; the arithmetic of blocks is in
// attention_rows_cpu.h, attention_softmax_cpu.h and block_products_cpu.h.
//
// Forward: each block of queries is multiplied with the blocks of keys that it sees, one after the other. The softmax
// is updated with each block (T. Dao et al., "FlashAttention"; T. Dao, "FlashAttention-2"). Backward recomputes the
// scores from the values that forward kept and one number a query. Keys that no query of a block sees are skipped.
//
// Matmuls of bfloat16 are matmuls of pairs, with float32 sums, if the machine has them (AVX512-BF16) and the width is
// even. Probabilities and the scores' gradients are rounded to bfloat16 for them, as in libtorch's kernels. Otherwise,
// and for float16, elements are widened to float32 block by block.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

struct AttentionCall {
  AttentionShape shape;
  double scale;
  double cap;            ///< 0: none
  at::Tensor q, k, v;    ///< [B, H, T, D], last dimension contiguous, else any strides
  at::Tensor mask = {};  ///< [B, Hq, T, S], boolean or floating-point, any strides; undefined: none
  double dropout = 0;    ///< probability to drop a probability
  uint64_t seed = 0;     ///< seed of the dropout
};

/// Writes `out` [B, Hq, T, D] and `logsumexp` [B, Hq, T], with a mask [B, Hq, T, 2] (any strides; the last stride of
/// `out` and that of the two is 1).
void attention_forward_cpu(const AttentionCall& call, const at::Tensor& out, const at::Tensor& logsumexp);

/// Writes the three gradients (any strides; the last stride of each is 1). The bits are the same on any number of
/// threads.
void attention_backward_cpu(const AttentionCall& call, const at::Tensor& grad_out, const at::Tensor& out,
                            const at::Tensor& logsumexp, const at::Tensor& dq, const at::Tensor& dk,
                            const at::Tensor& dv);

/// Returns true if attention in bfloat16 is faster in matmuls of pairs than in float32 blocks on this machine, which
/// must have matmuls of pairs. Measured once (ops/kernel_choice.h).
bool pairs_are_faster();

}  // namespace plimsoll::ops
