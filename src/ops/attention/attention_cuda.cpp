// Implements attention on a CUDA device: libtorch's flash kernels (T. Dao, "FlashAttention-2") if they compute it, with
// windows and grouped heads; else, and with masks that are tensors or dropout, in blocks of queries.
#include "ops/attention/attention_cuda.h"

#include <ATen/ATen.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <array>
#include <cmath>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_plan.h"
#include "ops/attention/capped_softmax_launch.h"
#include "ops/cuda_op_support.h"
#include "ops/deterministic.h"
#include "ops/placed_results.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Scale = std::optional<double>;

double scale_of(const AttentionShape& shape, Scale scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(shape.width)));
}

/// Returns true if libtorch's flash kernels run on the tensor's device: they need compute capability 8.0.
bool has_flash_kernels(const Tensor& tensor) {
#ifdef PLIMSOLL_CUDA_ON_CPU
  return tensor.defined();
#else
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, tensor.device().index()) == cudaSuccess &&
         major >= 8;
#endif
}

/// Returns [B, H, T, D] as [B, T, H, D], or the other way round.
Tensor tokens_first(const Tensor& heads) {
  return heads.transpose(1, 2);
}

/// Returns [B, H, T, D] as the [B, T, H, D] that flash kernels read, copied if they cannot read it in place.
Tensor flash_operand(const Tensor& heads) {
  const Tensor tokens = tokens_first(heads);
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

BlocksCall blocks_call(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v, Scale scale,
                       double softcap, const std::optional<Tensor>& mask, const std::optional<Tensor>& seed,
                       double dropout) {
  // Kernels read both in place.
  for (const auto& read : {mask, seed})
    require(!read || read->device() == q.device(), "plimsoll::attention", "mask and seed must be on q's device, ",
            q.device());
  return {.shape = shape,
          .scale = scale_of(shape, scale),
          .cap = softcap,
          .q = q,
          .k = k,
          .v = v,
          .mask = mask.value_or(Tensor()),
          .dropout = dropout,
          .seed = seed.value_or(Tensor())};
}

std::tuple<Tensor, Tensor> attention_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                          int64_t window, Scale scale, double softcap,
                                          const std::optional<Tensor>& mask, const std::optional<Tensor>& seed,
                                          double dropout) {
  const AttentionShape shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  const cuda::OnDevice on("plimsoll::attention", q, k, v);
  if (!has_flash_kernels(q) || !flash_takes(shape, dtype_of(q))) {
    auto [out, logsumexp] = attention_results(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
    attention_blocks_forward(blocks_call(shape, q, k, v, scale, softcap, mask, seed, dropout), out, logsumexp,
                             on.stream());
    return {out, logsumexp};
  }
  // The flash kernel allocates the results itself, of the sizes that are planned for ours.
  const Window seen = window_of(shape);
  const auto results =
      at::_flash_attention_forward(flash_operand(q), flash_operand(k), flash_operand(v), /*cum_seq_q=*/std::nullopt,
                                   /*cum_seq_k=*/std::nullopt, shape.queries, shape.keys, /*dropout_p=*/0.0, causal,
                                   /*return_debug_mask=*/false, scale_of(shape, scale), seen.left, seen.right);
  return {tokens_first(std::get<0>(results)), std::get<1>(results)};
}

/// dq, dk and dv [B, H, T, D].
using Gradients = std::array<Tensor, 3>;

/// Returns the gradients by libtorch's flash kernels. With `into` they are written there, and `grad_out` and `out` must
/// be contiguous: the operator has no `out`, but makes gradients by empty_like() of its operands, after copies of
/// others.
Gradients flash_gradients(const AttentionShape& shape, const Tensor& grad_out, const Tensor& q, const Tensor& k,
                          const Tensor& v, const Tensor& out, const Tensor& logsumexp, Scale scale,
                          const Gradients* into) {
  const Deterministic deterministic;  // by default the kernel sums the queries' gradient with atomics
  const Window seen = window_of(shape);
  const Tensor queries = flash_operand(q), keys = flash_operand(k), values = flash_operand(v);
  std::optional<PlacedResults> placed;
  if (into)
    placed.emplace(std::vector<Tensor>{tokens_first((*into)[0]), tokens_first((*into)[1]), tokens_first((*into)[2])});
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      grad_out, queries, keys, values, out, logsumexp, /*cum_seq_q=*/Tensor(), /*cum_seq_k=*/Tensor(), shape.queries,
      shape.keys, /*dropout_p=*/0.0, shape.causal, /*rng_state=*/Tensor(), /*unused=*/Tensor(), scale_of(shape, scale),
      seen.left, seen.right);
  return {tokens_first(dq), tokens_first(dk), tokens_first(dv)};
}

std::tuple<Tensor, Tensor, Tensor> attention_backward_cuda(const Tensor& grad_out, const Tensor& q, const Tensor& k,
                                                           const Tensor& v, const Tensor& out, const Tensor& logsumexp,
                                                           bool causal, int64_t window, Scale scale, double softcap,
                                                           const std::optional<Tensor>& mask,
                                                           const std::optional<Tensor>& seed, double dropout) {
  const AttentionShape shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  const cuda::OnDevice on("plimsoll::attention_backward", q, k, v, grad_out, out, logsumexp);
  if (has_flash_kernels(q) && flash_takes(shape, dtype_of(q))) {
    auto [dq, dk, dv] =
        flash_gradients(shape, tokens_first(grad_out), q, k, v, tokens_first(out), logsumexp, scale, nullptr);
    return {dq, dk, dv};
  }
  auto [dq, dk, dv] =
      attention_gradients(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
  attention_blocks_backward(blocks_call(shape, q, k, v, scale, softcap, mask, seed, dropout), grad_out, logsumexp, dq,
                            dk, dv, on.stream());
  return {dq, dk, dv};
}

void attention_backward_out_cuda(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                                 double softcap, const std::optional<Tensor>& mask, const std::optional<Tensor>& seed,
                                 double dropout, Tensor& dq, Tensor& dk, Tensor& dv) {
  const AttentionShape shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  require_gradients(grad_out, out, q, k, v, dq, dk, dv);
  const cuda::OnDevice on("plimsoll::attention_backward", q, k, v, grad_out, out, logsumexp, dq, dk, dv);
  if (!has_flash_kernels(q) || !flash_takes(shape, dtype_of(q))) {
    attention_blocks_backward(blocks_call(shape, q, k, v, scale, softcap, mask, seed, dropout), grad_out, logsumexp, dq,
                              dk, dv, on.stream());
    return;
  }
  // Before the scope of places: these copies are made by empty_like() too.
  const Tensor dense_grad = tokens_first(grad_out).contiguous(), dense_out = tokens_first(out).contiguous();
  const Gradients into{dq, dk, dv};
  const Gradients made = flash_gradients(shape, dense_grad, q, k, v, dense_out, logsumexp, scale, &into);
  for (size_t i = 0; i < into.size(); ++i)
    check(made[i].data_ptr() == into[i].data_ptr() && made[i].strides() == into[i].strides(),
          "libtorch's backward of attention allocates its gradients in another way than this version's");
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("attention", attention_cuda);
  m.impl("attention_backward", attention_backward_cuda);
  m.impl("attention_backward.out", attention_backward_out_cuda);
}

/// The key heads [head, head + heads) of sequence `batch`. Each head is a matrix of rows.
struct Part {
  const AttentionShape& shape;
  int64_t batch, head, heads;

  int64_t query_heads() const { return heads * shape.group(); }
  /// Returns [heads, keys, D] as a view of [B, Hkv, S, D].
  Tensor keys_of(const Tensor& tensor, const QueryBlock& block) const {
    return tensor.select(0, batch).narrow(0, head, heads).narrow(1, block.first_key, block.keys);
  }
  Tensor all_keys_of(const Tensor& tensor) const { return tensor.select(0, batch).narrow(0, head, heads); }
  /// Returns [query heads, count, D] as a view of [B, Hq, T, D].
  Tensor queries_of(const Tensor& tensor, const QueryBlock& block) const {
    return tensor.select(0, batch).narrow(0, head * shape.group(), query_heads()).narrow(1, block.begin, block.count);
  }
  /// Returns the first elements of a buffer as [heads, rows, width], with a row for each query of each head of the
  /// group.
  Tensor in(const Tensor& buffer, const QueryBlock& block, int64_t width) const {
    const int64_t rows = shape.group() * block.count;
    return buffer.narrow(0, 0, heads * rows * width).view({heads, rows, width});
  }
  Tensor gathered(const Tensor& buffer, const Tensor& from, const QueryBlock& block) const {
    Tensor to = in(buffer, block, shape.width);
    to.view({query_heads(), block.count, shape.width}).copy_(queries_of(from, block));
    return to;
  }
  void scatter(const Tensor& from, const Tensor& to, const QueryBlock& block) const {
    queries_of(to, block).copy_(from.view({query_heads(), block.count, shape.width}));
  }
};

template <typename Work>
void for_parts(const AttentionShape& shape, const ScoreBlocks& cut, Work work) {
  for (int64_t batch = 0; batch < shape.batch; ++batch)
    for (int64_t head = 0; head < shape.kv_heads; head += cut.kv_heads)
      work(Part{shape, batch, head, std::min(cut.kv_heads, shape.kv_heads - head)});
}

/// Returns the heads themselves if their rows are contiguous elements, which a matmul reads in place; else a
/// copy.
Tensor as_matrices(const Tensor& heads) {
  return heads.stride(3) == 1 && heads.stride(2) >= heads.size(3) ? heads : heads.contiguous();
}

/// Computes sum += a b; `sum` may be float32 although a and b have 16 bits.
void multiply_add(const Tensor& a, const Tensor& b, Tensor sum) {
  if (a.scalar_type() == sum.scalar_type())
    at::baddbmm_out(sum, sum, a, b);
  else
#ifdef PLIMSOLL_CUDA_ON_CPU  // libtorch has it for CUDA only
    at::baddbmm_out(sum, sum, a.to(sum.scalar_type()), b.to(sum.scalar_type()));
#else
    at::baddbmm_out(sum, sum, a, b, sum.scalar_type());
#endif
}

Rows rows_of(const Tensor& matrices) {
  return {matrices.data_ptr(), dtype_of(matrices), matrices.size(2)};
}

/// Returns the mask of a part's queries in a block.
cuda::ScoreMask score_mask(const Part& part, const QueryBlock& block, const Tensor& mask) {
  if (!mask.defined()) return {};
  const int64_t first = part.batch * mask.stride(0) + part.head * part.shape.group() * mask.stride(1) +
                        block.begin * mask.stride(2) + block.first_key * mask.stride(3);
  return {.data = static_cast<const char*>(mask.const_data_ptr()) + first * mask.element_size(),
          .dtype = dtype_of(mask),
          .matrix_stride = mask.stride(1),
          .query_stride = mask.stride(2),
          .key_stride = mask.stride(3)};
}

cuda::ScoreDropout score_dropout(const Part& part, const QueryBlock& block, const BlocksCall& call) {
  if (call.dropout == 0) return {};
  return {.rule = dropout_rule(call.dropout),
          .seed = call.seed.const_data_ptr<int64_t>(),
          .first_head = part.batch * part.shape.query_heads + part.head * part.shape.group(),
          .first_query = block.begin,
          .first_key = block.first_key};
}

cuda::ScoreRows score_rows(const Part& part, const QueryBlock& block, const BlocksCall& call, const Tensor& scores,
                           const Tensor& logsumexp) {
  const AttentionShape& shape = part.shape;
  const Tensor first = logsumexp.select(0, part.batch).select(0, part.head * shape.group());
  return {
      .softmax = {.scores = rows_of(scores),
                  .scale = call.scale,
                  .cap = call.cap,
                  .width = block.keys,
                  // Row 0 is query block.begin; column 0 is key block.first_key.
                  .first_seen = shape.window > 0 ? block.begin - shape.window + 1 - block.first_key : -shape.queries,
                  .seen = block.begin + 1 - block.first_key,
                  .causal = shape.causal,
                  .logsumexp = first.narrow(0, block.begin, block.count).data_ptr()},
      .rows = scores.size(0) * scores.size(1),
      .queries = block.count,
      .logsumexp_stride = logsumexp.stride(1),
      .mask = score_mask(part, block, call.mask),
      .dropout = score_dropout(part, block, call)};
}

/// The scratch for the largest part.
class Scratch {
 public:
  Scratch(const AttentionShape& shape, const ScoreBlocks& cut, const Tensor& like)
      : options_(like.options()),
        wide_(like.options().dtype(accumulator(like.scalar_type()))),
        rows_(cut.kv_heads * shape.group() * cut.rows),
        width_(shape.width),
        max_keys_(cut.max_keys) {}
  Tensor queries() const { return at::empty({rows_ * width_}, options_); }
  Tensor scores() const { return at::empty({rows_ * max_keys_}, wide_); }
  /// Returns the buffer for values computed from scores, in the operands' type: the scores' own memory if that is their
  /// type.
  Tensor narrow_scores(const Tensor& scores) const {
    return options_.dtype() == wide_.dtype() ? scores : at::empty({rows_ * max_keys_}, options_);
  }
  Tensor sums(int64_t heads, int64_t keys) const { return at::empty({heads, keys, width_}, wide_); }

 private:
  at::TensorOptions options_, wide_;
  int64_t rows_, width_, max_keys_;
};

}  // namespace

void attention_blocks_forward(const BlocksCall& call, const Tensor& out, const Tensor& logsumexp, cudaStream_t stream) {
  const AttentionShape& shape = call.shape;
  const ScoreBlocks cut = score_blocks(shape);
  const Tensor keys = as_matrices(call.k), values = as_matrices(call.v);
  const Scratch scratch(shape, cut, call.q);
  const Tensor query_buffer = scratch.queries(), result_buffer = scratch.queries(), score_buffer = scratch.scores();
  const Tensor probability_buffer = scratch.narrow_scores(score_buffer);
  for_parts(shape, cut, [&](const Part& part) {
    for (const QueryBlock& block : cut.blocks) {
      const Tensor queries = part.gathered(query_buffer, call.q, block);
      const Tensor scores = part.in(score_buffer, block, block.keys),
                   probabilities = part.in(probability_buffer, block, block.keys);
      cuda::multiply(queries, part.keys_of(keys, block).transpose(1, 2), scores);
      cuda::launch_capped_softmax(score_rows(part, block, call, scores, logsumexp), rows_of(probabilities), stream);
      const Tensor result = part.in(result_buffer, block, shape.width);
      cuda::multiply(probabilities, part.keys_of(values, block), result);
      part.scatter(result, out, block);
    }
  });
}

void attention_blocks_backward(const BlocksCall& call, const Tensor& grad_out, const Tensor& logsumexp,
                               const Tensor& dq, const Tensor& dk, const Tensor& dv, cudaStream_t stream) {
  const AttentionShape& shape = call.shape;
  const ScoreBlocks cut = score_blocks(shape);
  const Tensor keys = as_matrices(call.k), values = as_matrices(call.v);
  const Scratch scratch(shape, cut, call.q);
  const Tensor query_buffer = scratch.queries(), grad_buffer = scratch.queries(), result_buffer = scratch.queries();
  const Tensor score_buffer = scratch.scores(), grad_score_buffer = scratch.scores();
  const Tensor probability_buffer = scratch.narrow_scores(score_buffer),
               narrow_grad_buffer = scratch.narrow_scores(grad_score_buffer);
  const Tensor dk_sums = scratch.sums(cut.kv_heads, shape.keys), dv_sums = scratch.sums(cut.kv_heads, shape.keys);
  for_parts(shape, cut, [&](const Part& part) {
    Tensor dk_all = dk_sums.narrow(0, 0, part.heads), dv_all = dv_sums.narrow(0, 0, part.heads);
    dk_all.zero_();
    dv_all.zero_();
    for (const QueryBlock& block : cut.blocks) {
      const Tensor queries = part.gathered(query_buffer, call.q, block),
                   grad = part.gathered(grad_buffer, grad_out, block);
      const Tensor scores = part.in(score_buffer, block, block.keys),
                   grad_probabilities = part.in(grad_score_buffer, block, block.keys),
                   probabilities = part.in(probability_buffer, block, block.keys),
                   grad_scores = part.in(narrow_grad_buffer, block, block.keys);
      cuda::multiply(queries, part.keys_of(keys, block).transpose(1, 2), scores);
      cuda::multiply(grad, part.keys_of(values, block).transpose(1, 2), grad_probabilities);
      const Rows given = rows_of(grad_probabilities);
      cuda::launch_capped_softmax_backward(score_rows(part, block, call, scores, logsumexp),
                                           {given.data, given.dtype, given.stride}, rows_of(probabilities),
                                           rows_of(grad_scores), stream);
      const Tensor result = part.in(result_buffer, block, shape.width);
      cuda::multiply(grad_scores, part.keys_of(keys, block), result);
      part.scatter(result, dq, block);
      multiply_add(grad_scores.transpose(1, 2), queries, dk_all.narrow(1, block.first_key, block.keys));
      multiply_add(probabilities.transpose(1, 2), grad, dv_all.narrow(1, block.first_key, block.keys));
    }
    part.all_keys_of(dk).copy_(dk_all);
    part.all_keys_of(dv).copy_(dv_all);
  });
}

}  // namespace plimsoll::ops
