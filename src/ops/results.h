// What an operator's arguments must be and what its results are, for the kernels of every device: each checks its
// arguments (UserError where they do not agree) and gives the results, with nothing in them yet. They are the Meta
// kernels too, so that a kernel asks for exactly what was planned.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <vector>

#include "ops/attention_plan.h"

namespace plimsoll::ops {

/// y and rstd; dx and dweight (rms_norm.cpp).
std::tuple<at::Tensor, at::Tensor> rms_norm_results(const at::Tensor& x, const at::Tensor& weight, double eps,
                                                    std::optional<at::ScalarType> out_dtype);
std::tuple<at::Tensor, at::Tensor> rms_norm_gradients(const at::Tensor& grad_y, const at::Tensor& x,
                                                      const at::Tensor& weight, const at::Tensor& rstd);

/// Also of the rotation back (rope.cpp).
at::Tensor rope_result(const at::Tensor& x, int64_t position, double theta, bool inverse, at::ArrayRef<double> scaling);
/// Radians a position of each of width / 2 pairs.
std::vector<double> rope_frequencies(int64_t width, double theta, at::ArrayRef<double> scaling);

/// Of swiglu and geglu; `op` is the name in messages (swiglu.cpp).
at::Tensor gated_result(const char* op, const at::Tensor& gate_up);
at::Tensor gated_gradient(const char* op, const at::Tensor& grad, const at::Tensor& gate_up);

/// gradient_norm_ has none of its own (gradient_norm.cpp).
void check_gradient_norm(at::Tensor& norms, at::Tensor& skipped, const at::Tensor& gradient, int64_t index);

/// The loss; loss, count and the gradients, empty where they are not wanted (linear_cross_entropy.cpp).
at::Tensor loss_result(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets, int64_t ignore_index,
                       double softcap);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> loss_and_gradient_results(const at::Tensor& x,
                                                                                     const at::Tensor& weight,
                                                                                     const at::Tensor& targets,
                                                                                     int64_t ignore_index, bool wants_x,
                                                                                     bool wants_weight, double softcap);

/// The sizes, and that they agree; out and logsumexp; dq, dk and dv (attention.cpp).
AttentionShape attention_shape(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                               int64_t window, double softcap);
std::tuple<at::Tensor, at::Tensor> attention_results(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                     bool causal, int64_t window, std::optional<double> scale,
                                                     double softcap);
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_gradients(const at::Tensor& grad_out, const at::Tensor& q,
                                                                   const at::Tensor& k, const at::Tensor& v,
                                                                   const at::Tensor& out, const at::Tensor& logsumexp,
                                                                   bool causal, int64_t window,
                                                                   std::optional<double> scale, double softcap);

}  // namespace plimsoll::ops
