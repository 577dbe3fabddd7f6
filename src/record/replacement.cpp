// Implements the replacement of scaled_dot_product_attention.
#include "plimsoll/replacement.h"

#include <ATen/FuncTorchTLS.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "ops/attention/attention.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

using at::Tensor;

// Returns whether plimsoll::attention can be called: it has a gradient, and neither forward-mode derivatives nor
// functorch's transforms.
bool is_plainly_differentiated(std::initializer_list<const Tensor*> operands) {
  if (at::functorch::functorchTLSAccessor()) {
    try {
      at::functorch::functorchTLSAccessor()->checkSupportsCppAutogradFunction();
    } catch (const c10::Error&) {
      return false;
    }
  }
  return std::ranges::none_of(operands, [](const Tensor* tensor) { return tensor->_fw_grad(/*level=*/0).defined(); });
}

// Returns whether the call is one that plimsoll::attention computes: operands [heads, T, D] or [batch, heads, T, D] of
// one type and alike, but for the number of heads and of tokens.
bool is_replaceable(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal, bool enable_gqa) {
  const Recorder* const recorder = Recorder::active();
  if (!recorder || !recorder->replacements().attention) return false;
  for (const Tensor* tensor : {&q, &k, &v})
    if (!is_plan(*tensor) || tensor->numel() == 0 || tensor->dim() != q.dim() ||
        !at::isFloatingType(tensor->scalar_type()) || tensor->scalar_type() != q.scalar_type())
      return false;
  if (q.dim() < 2 || q.dim() > 4 || q.size(-1) != k.size(-1) || k.sizes() != v.sizes()) return false;
  if (is_causal && q.size(-2) != k.size(-2)) return false;
  if (q.dim() == 3 && q.size(0) != k.size(0)) return false;
  if (q.dim() == 4) {
    const int64_t heads = q.size(1), kv_heads = k.size(1);
    // Without enable_gqa, libtorch's matmul broadcasts a single head.
    const bool grouped = enable_gqa ? heads % kv_heads == 0 : heads == kv_heads || kv_heads == 1;
    if (q.size(0) != k.size(0) || !grouped) return false;
  }
  return is_plainly_differentiated({&q, &k, &v});
}

Tensor with_heads(const Tensor& tensor) {
  if (tensor.dim() == 2) return tensor.unsqueeze(0).unsqueeze(0);
  return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                 bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (mask || dropout != 0 || !is_replaceable(q, k, v, is_causal, enable_gqa))
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  // The result is laid out as libtorch lays it out: contiguous for three dimensions (each head is a sequence of one
  // head), and in the order of heads and tokens that q has.
  const Tensor out = ops::attention(with_heads(q), with_heads(k), with_heads(v), {.causal = is_causal, .scale = scale});
  if (q.dim() == 2) return out.squeeze(0).squeeze(0);
  if (q.dim() == 3) return out.squeeze(1);
  return q.stride(1) > q.stride(2) ? out.contiguous() : out;
}

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, AutogradIPU, m) {
  m.impl("scaled_dot_product_attention", attention);
}

}  // namespace
}  // namespace plimsoll
