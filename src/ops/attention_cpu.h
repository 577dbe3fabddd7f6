// The CPU kernels of attention; the operators are defined in attention.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention_plan.h"

namespace plimsoll::ops {

/// Writes `out` [B, Hq, T, D] and `logsumexp` [B, Hq, T] (any strides, last of `out` 1).
void attention_forward_cpu(const AttentionShape& shape, double scale, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const at::Tensor& out, const at::Tensor& logsumexp);

/// Writes the three gradients (any strides, last of each 1).
void attention_backward_cpu(const AttentionShape& shape, double scale, const at::Tensor& grad_out, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                            const at::Tensor& logsumexp, const at::Tensor& dq, const at::Tensor& dk,
                            const at::Tensor& dv);

}  // namespace plimsoll::ops
