// Attention whose scores are capped, c tanh(score / c): the CPU kernel; the operators are defined in attention.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention_plan.h"

namespace plimsoll::ops {

/// As attention_forward_cpu and attention_backward_cpu (attention_cpu.h), for operands of any strides. Arithmetic is in
/// the accumulator's type. Head by head and block of queries by block: scratch for one head's operands, and for one
/// block's scores of the keys that it sees.
void capped_attention_forward_cpu(const AttentionShape& shape, double scale, double cap, const at::Tensor& q,
                                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                                  const at::Tensor& logsumexp);
void capped_attention_backward_cpu(const AttentionShape& shape, double scale, double cap, const at::Tensor& grad_out,
                                   const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                                   const at::Tensor& logsumexp, const at::Tensor& dq, const at::Tensor& dk,
                                   const at::Tensor& dv);

}  // namespace plimsoll::ops
