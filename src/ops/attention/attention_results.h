// Declares the checks and results of attention, for the kernels of every device. Each function throws UserError for
// arguments that do not belong together. Results are not filled yet. The functions that return them are the Meta
// kernels too, so that a kernel allocates exactly the results that were planned.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

/// Returns the sizes.
AttentionShape attention_shape(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                               int64_t window, double softcap);
/// Returns out and logsumexp.
std::tuple<at::Tensor, at::Tensor> attention_results(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                     bool causal, int64_t window, std::optional<double> scale,
                                                     double softcap);
/// Returns dq, dk and dv.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_gradients(const at::Tensor& grad_out, const at::Tensor& q,
                                                                   const at::Tensor& k, const at::Tensor& v,
                                                                   const at::Tensor& out, const at::Tensor& logsumexp,
                                                                   bool causal, int64_t window,
                                                                   std::optional<double> scale, double softcap);

}  // namespace plimsoll::ops
