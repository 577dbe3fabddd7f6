#include "ops/attention_cpu.h"

// The flash kernels are reached through libtorch's dispatch stub, so that they write straight into our outputs: the
// operator around them allocates its own, which sliced heads and windows would have to copy out of. The stub's entry
// takes one function a built instruction set, and the wheels for x86-64 are built with these two. A mismatch does not
// link.
#if defined(__x86_64__)
#define HAVE_AVX512_CPU_DEFINITION
#define HAVE_AVX2_CPU_DEFINITION
#endif
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/transformers/attention.h>

#include <limits>

namespace plimsoll::ops {
namespace {

using at::Tensor;

/// The heads of `range` of a [B, H, …] tensor as [batch, head, …] of one call; `group` heads of it for each key head.
Tensor heads(const Tensor& tensor, const HeadRange& range, int64_t group) {
  const Tensor part =
      tensor.narrow(0, range.batch, range.batches).narrow(1, range.kv_head * group, range.kv_heads * group);
  if (range.kv_heads == 1 || group == 1) return part;
  return part.select(0, 0).unflatten(0, {range.kv_heads, group});
}

/// Keys or values likewise, each repeated with stride 0 for its group of queries.
Tensor repeated(const Tensor& tensor, const HeadRange& range, int64_t group) {
  const Tensor part = tensor.narrow(0, range.batch, range.batches).narrow(1, range.kv_head, range.kv_heads);
  if (group == 1) return part;
  const Tensor one = range.kv_heads == 1 ? part : part.select(0, 0).unsqueeze(1);
  return one.expand({one.size(0), group, one.size(2), one.size(3)});
}

/// 0 where a query sees a key, minus infinity elsewhere. Column c is key begin - window + 1 + c for a block at `begin`;
/// blocks near the start, whose first key is 0, use the columns from there on.
std::optional<Tensor> window_mask(const AttentionShape& shape, const Tensor& logsumexp) {
  if (!needs_window_mask(shape)) return std::nullopt;
  const int64_t rows = window_mask_rows(shape), columns = rows + shape.window - 1;
  Tensor mask = at::empty({rows, columns}, logsumexp.options());
  const auto fill = [&]<typename T>(T* to) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[r * columns + c] = c >= r && c < r + shape.window ? T{0} : -std::numeric_limits<T>::infinity();
  };
  if (mask.scalar_type() == at::kDouble)
    fill(mask.mutable_data_ptr<double>());
  else
    fill(mask.mutable_data_ptr<float>());
  return mask;
}

std::optional<Tensor> mask_of(const std::optional<Tensor>& mask, const QueryBlock& block, const AttentionShape& shape) {
  if (!mask) return std::nullopt;
  const int64_t hidden = block.first_key - (block.begin - shape.window + 1);
  return mask->narrow(0, 0, block.count).narrow(1, hidden, block.keys);
}

}  // namespace

void attention_forward_cpu(const AttentionShape& shape, double scale, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& out, const Tensor& logsumexp) {
  const int64_t group = shape.group();
  const auto mask = window_mask(shape, logsumexp);
  for (const HeadRange& range : forward_heads(shape)) {
    const Tensor q_heads = heads(q, range, group), out_heads = heads(out, range, group);
    const Tensor lse_heads = heads(logsumexp, range, group);
    const Tensor k_heads = repeated(k, range, group), v_heads = repeated(v, range, group);
    for (const QueryBlock& block : query_blocks(shape)) {
      const auto queries = [&](const Tensor& t) { return t.narrow(2, block.begin, block.count); };
      const auto keys = [&](const Tensor& t) { return t.narrow(2, block.first_key, block.keys); };
      // The kernel indexes its outputs, not its inputs, as [batch, token, head].
      at::native::flash_attention_kernel(at::kCPU, queries(out_heads).transpose(1, 2),
                                         queries(lse_heads).transpose(1, 2), queries(q_heads), keys(k_heads),
                                         keys(v_heads), 0.0, shape.causal && !mask, mask_of(mask, block, shape), scale);
    }
  }
}

void attention_backward_cpu(const AttentionShape& shape, double scale, const Tensor& grad_out, const Tensor& q,
                            const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& logsumexp,
                            const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  const int64_t group = shape.group();
  const auto mask = window_mask(shape, logsumexp);
  dq.zero_();  // the kernel adds into its gradients
  if (group == 1) {
    dk.zero_();
    dv.zero_();
  }
  for (const HeadRange& range : backward_heads(shape, at::get_num_threads())) {
    const Tensor q_heads = heads(q, range, group), out_heads = heads(out, range, group);
    const Tensor lse_heads = heads(logsumexp, range, group), grad_heads = heads(grad_out, range, group);
    const Tensor dq_heads = heads(dq, range, group);
    const Tensor k_heads = repeated(k, range, group), v_heads = repeated(v, range, group);
    const auto own_gradient = [&](const Tensor& whole, const Tensor& like) {
      return group == 1 ? whole : at::zeros(like.sizes(), like.options());
    };
    const Tensor dk_heads = own_gradient(dk, k_heads), dv_heads = own_gradient(dv, v_heads);
    for (const QueryBlock& block : query_blocks(shape)) {
      const auto queries = [&](const Tensor& t) { return t.narrow(2, block.begin, block.count).transpose(1, 2); };
      const auto keys = [&](const Tensor& t) { return t.narrow(2, block.first_key, block.keys).transpose(1, 2); };
      at::native::flash_attention_backward_kernel(at::kCPU, queries(dq_heads), keys(dk_heads), keys(dv_heads),
                                                  queries(grad_heads), queries(q_heads), keys(k_heads), keys(v_heads),
                                                  queries(out_heads), queries(lse_heads), 0.0, shape.causal && !mask,
                                                  mask_of(mask, block, shape), scale);
    }
    if (group == 1) continue;
    const auto sum_group = [&](const Tensor& whole, const Tensor& parts) {
      Tensor to = whole.narrow(0, range.batch, range.batches).narrow(1, range.kv_head, range.kv_heads);
      to = range.kv_heads == 1 ? to.select(1, 0) : to.select(0, 0);
      at::sum_out(to, parts, {1});
    };
    sum_group(dk, dk_heads);
    sum_group(dv, dv_heads);
  }
}

}  // namespace plimsoll::ops
