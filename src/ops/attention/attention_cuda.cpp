// Implements attention on a CUDA device: libtorch's flash kernels (T. Dao, "FlashAttention-2") if they accept the
// operands, with windows and grouped heads; else in blocks (attention_blocks_cuda.h).
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <cmath>

#include "ops/attention/attention.h"
#include "ops/attention/attention_blocks_cuda.h"
#include "ops/attention/attention_plan.h"
#include "ops/cuda_op_support.h"
#include "ops/deterministic.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Scale = std::optional<double>;

double scale_of(const AttentionShape& shape, Scale scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(shape.width)));
}

/// Returns [B, H, T, D] as the [B, T, H, D] that flash kernels read, copied if they cannot read it in place.
Tensor flash_operand(const Tensor& heads) {
  const Tensor tokens = heads.transpose(1, 2);
  const int64_t misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tokens.const_data_ptr()) % 16);
  return flash_reads(tokens.sizes(), tokens.strides(), misaligned / 2) ? tokens : tokens.contiguous();
}

/// The window of token i, which sees (i - window, i], as tokens to its left and right.
struct Window {
  std::optional<int64_t> left, right;
};
Window window_of(const AttentionShape& shape) {
  if (shape.window == 0) return {};
  return {shape.window - 1, 0};
}

/// Throws UserError for what the kernels do not compute.
void require_plain(const std::optional<Tensor>& mask, double dropout) {
  require(!mask && dropout == 0, "plimsoll::attention",
          "masks that are tensors and dropout are computed on the CPU only");
}

std::tuple<Tensor, Tensor> attention_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                          int64_t window, Scale scale, double softcap,
                                          const std::optional<Tensor>& mask, const std::optional<Tensor>& seed,
                                          double dropout) {
  require_plain(mask, dropout);
  const AttentionShape shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  const cuda::OnDevice on(q);
  if (!flash_takes(shape, dtype_of(q))) {
    auto [out, logsumexp] = attention_results(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
    attention_blocks_forward(shape, scale_of(shape, scale), softcap, q, k, v, out, logsumexp, on.stream());
    return {out, logsumexp};
  }
  // The flash kernel allocates the results itself, of the sizes that are planned for ours.
  const Window seen = window_of(shape);
  const auto results =
      at::_flash_attention_forward(flash_operand(q), flash_operand(k), flash_operand(v), /*cum_seq_q=*/std::nullopt,
                                   /*cum_seq_k=*/std::nullopt, shape.queries, shape.keys, /*dropout_p=*/0.0, causal,
                                   /*return_debug_mask=*/false, scale_of(shape, scale), seen.left, seen.right);
  return {std::get<0>(results).transpose(1, 2), std::get<1>(results)};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward_cuda(const Tensor& grad_out, const Tensor& q, const Tensor& k,
                                                           const Tensor& v, const Tensor& out, const Tensor& logsumexp,
                                                           bool causal, int64_t window, Scale scale, double softcap,
                                                           const std::optional<Tensor>& mask,
                                                           const std::optional<Tensor>& seed, double dropout) {
  require_plain(mask, dropout);
  const AttentionShape shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  const cuda::OnDevice on(q);
  if (!flash_takes(shape, dtype_of(q))) {
    auto [dq, dk, dv] =
        attention_gradients(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
    attention_blocks_backward(shape, scale_of(shape, scale), softcap, grad_out, q, k, v, logsumexp, dq, dk, dv,
                              on.stream());
    return {dq, dk, dv};
  }
  const Deterministic deterministic;  // by default the kernel sums the queries' gradient with atomics
  const Window seen = window_of(shape);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      grad_out.transpose(1, 2), flash_operand(q), flash_operand(k), flash_operand(v), out.transpose(1, 2), logsumexp,
      /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(), shape.queries, shape.keys, /*dropout_p=*/0.0, causal,
      /*rng_state=*/Tensor(), /*unused=*/Tensor(), scale_of(shape, scale), seen.left, seen.right);
  return {dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)};
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("attention", attention_cuda);
  m.impl("attention_backward", attention_backward_cuda);
}

}  // namespace
}  // namespace plimsoll::ops
