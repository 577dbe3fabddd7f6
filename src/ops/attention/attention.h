// Declares attention without the matrix of scores (T. Dao et al., "FlashAttention"). It can be causal, over all keys or
// a sliding window, with grouped queries (J. Ainslie et al., "GQA").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "ops/attention/attention_plan.h"

namespace plimsoll::ops {

struct AttentionOptions {
  bool causal = true;
  int64_t window = 0;           ///< tokens; 0: no window
  std::optional<double> scale;  ///< factor of q k^T; 1 / sqrt(D) if empty
  double softcap = 0;           ///< c > 0: scores become c tanh(score / c) (Gemma 2)
  /// Boolean, true where a query sees a key, or floating-point and added to the scores; [B, Hq, T, S] or a shape that
  /// broadcasts to it. It gets no gradient. A query that sees no key has the result 0.
  std::optional<at::Tensor> mask = {};
  double dropout = 0;                   ///< probability in [0, 1) to drop a probability
  std::optional<at::Tensor> seed = {};  ///< with dropout: int64 [1] on the device of q; the bits follow from it
};

/// Computes softmax(q k^T / sqrt(D)) v for q [B, Hq, T, D] and k, v [B, Hkv, S, D]. Hkv divides Hq, and query head h
/// reads key head h / (Hq / Hkv). With `causal` (S = T) token i sees tokens j <= i; with `window` > 0 (causal only) it
/// sees the tokens in (i - window, i]. Any strides are accepted; a contiguous last dimension saves a copy.
/// Returns [B, Hq, T, D] laid out as [B, T, Hq, D], so that merging the heads afterwards is a view.
/// For backward it keeps q, k, v, the result, one float32 (float64 for float64) a query, two with a mask, the mask and
/// the seed. Under autocast q, k, v and a floating-point mask are cast to the lower precision. Operators
/// plimsoll::attention and plimsoll::attention_backward, whose overload `out` writes the gradients into given tensors.
/// Throws UserError if shapes, dtypes or window do not agree.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal = true,
                     int64_t window = 0);
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);

// The checks and results of attention, for the kernels of every device. Each function throws UserError for arguments
// that do not belong together. The functions that return results are the Meta kernels too: results are not filled yet,
// and a kernel allocates exactly the results that were planned.

/// Returns the sizes.
AttentionShape attention_shape(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                               int64_t window, double softcap, const std::optional<at::Tensor>& mask,
                               const std::optional<at::Tensor>& seed, double dropout);
/// Returns out and logsumexp.
std::tuple<at::Tensor, at::Tensor> attention_results(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                     bool causal, int64_t window, std::optional<double> scale,
                                                     double softcap, const std::optional<at::Tensor>& mask,
                                                     const std::optional<at::Tensor>& seed, double dropout);
/// Throws UserError unless grad_out and out have the shape of q, and the gradients the shapes and dtypes of q, k and v,
/// and contiguous rows.
void require_gradients(const at::Tensor& grad_out, const at::Tensor& out, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv);
/// Returns dq, dk and dv.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_gradients(
    const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& logsumexp, bool causal, int64_t window, std::optional<double> scale, double softcap,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& seed, double dropout);

}  // namespace plimsoll::ops
