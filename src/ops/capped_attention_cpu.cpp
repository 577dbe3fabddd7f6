#include "ops/capped_attention_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

/// Tokens [begin, begin + count) of one head of [B, H, T, D], still of four dimensions: copying a matrix that lies
/// transposed, libtorch would take a buffer of its own.
Tensor part_of(const Tensor& tensor, int64_t batch, int64_t head, int64_t begin, int64_t count) {
  return tensor.narrow(0, batch, 1).narrow(1, head, 1).narrow(2, begin, count);
}
Tensor as_part(const Tensor& matrix) {
  return matrix.unsqueeze(0).unsqueeze(0);
}

/// The first `rows` x `columns` of a buffer, side by side.
Tensor matrix_in(const Tensor& buffer, int64_t rows, int64_t columns) {
  return buffer.narrow(0, 0, rows * columns).view({rows, columns});
}

/// One head's tokens in the accumulator's type.
class Scratch {
 public:
  Scratch(const AttentionShape& shape, const std::vector<QueryBlock>& blocks, const Tensor& like)
      : options_(like.options().dtype(accumulator(like.scalar_type()))), width_(shape.width) {
    rows_ = blocks.front().count;
    keys_ = shape.keys;
    most_keys_ = most_keys(blocks);
  }
  Tensor queries() const { return at::empty({rows_, width_}, options_); }
  Tensor keys() const { return at::empty({keys_, width_}, options_); }
  Tensor scores() const { return at::empty({rows_ * most_keys_}, options_); }
  Tensor row_numbers() const { return at::empty({rows_}, options_); }

 private:
  at::TensorOptions options_;
  int64_t width_, rows_ = 0, keys_ = 0, most_keys_ = 0;
};

CappedSoftmax softmax_of(const AttentionShape& shape, const QueryBlock& block, double scale, double cap,
                         const Tensor& scores, const Tensor& logsumexp) {
  return {.scores = rows(scores),
          .scale = scale,
          .cap = cap,
          .width = block.keys,
          // Row 0 is query block.begin, column 0 key block.first_key.
          .first_seen = shape.window > 0 ? block.begin - shape.window + 1 - block.first_key : -shape.queries,
          .seen = block.begin + 1 - block.first_key,
          .causal = shape.causal,
          .logsumexp = logsumexp.data_ptr()};
}

template <typename Work>
void for_rows(const QueryBlock& block, Work work) {
  at::parallel_for(0, block.count, row_grain(block.keys), work);
}

}  // namespace

void capped_attention_forward_cpu(const AttentionShape& shape, double scale, double cap, const Tensor& q,
                                  const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& logsumexp) {
  const std::vector<QueryBlock> blocks = capped_blocks(shape);
  const Scratch scratch(shape, blocks, q);
  const Tensor q_rows = scratch.queries(), result_rows = scratch.queries(), k_all = scratch.keys(),
               v_all = scratch.keys(), scores_all = scratch.scores(), sums_all = scratch.row_numbers();
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t head = 0; head < shape.query_heads; ++head) {
      if (head % shape.group() == 0) {
        as_part(k_all).copy_(part_of(k, b, head / shape.group(), 0, shape.keys));
        as_part(v_all).copy_(part_of(v, b, head / shape.group(), 0, shape.keys));
      }
      for (const QueryBlock& block : blocks) {
        const Tensor queries = q_rows.narrow(0, 0, block.count), sums = sums_all.narrow(0, 0, block.count);
        Tensor result = result_rows.narrow(0, 0, block.count);
        Tensor scores = matrix_in(scores_all, block.count, block.keys);
        as_part(queries).copy_(part_of(q, b, head, block.begin, block.count));
        at::mm_out(scores, queries, k_all.narrow(0, block.first_key, block.keys).t());
        const CappedSoftmax softmax = softmax_of(shape, block, scale, cap, scores, sums);
        for_rows(block, [&](int64_t begin, int64_t end) { capped_softmax_rows(softmax, begin, end); });
        at::mm_out(result, scores, v_all.narrow(0, block.first_key, block.keys));
        part_of(out, b, head, block.begin, block.count).copy_(as_part(result));
        logsumexp.select(0, b).select(0, head).narrow(0, block.begin, block.count).copy_(sums);
      }
    }
}

void capped_attention_backward_cpu(const AttentionShape& shape, double scale, double cap, const Tensor& grad_out,
                                   const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                                   const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  const std::vector<QueryBlock> blocks = capped_blocks(shape);
  const Scratch scratch(shape, blocks, q);
  const Tensor q_rows = scratch.queries(), grad_rows = scratch.queries(), result_rows = scratch.queries();
  const Tensor k_all = scratch.keys(), v_all = scratch.keys(), dk_all = scratch.keys(), dv_all = scratch.keys();
  const Tensor scores_all = scratch.scores(), grad_scores_all = scratch.scores();
  const Tensor sums_all = scratch.row_numbers(), delta_all = scratch.row_numbers();
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t head = 0; head < shape.query_heads; ++head) {
      const int64_t kv_head = head / shape.group();
      if (head % shape.group() == 0) {
        as_part(k_all).copy_(part_of(k, b, kv_head, 0, shape.keys));
        as_part(v_all).copy_(part_of(v, b, kv_head, 0, shape.keys));
        dk_all.zero_();
        dv_all.zero_();
      }
      for (const QueryBlock& block : blocks) {
        const auto rows_of = [&](const Tensor& buffer) { return buffer.narrow(0, 0, block.count); };
        const auto keys_of = [&](const Tensor& all) { return all.narrow(0, block.first_key, block.keys); };
        const auto here = [&](const Tensor& heads) { return part_of(heads, b, head, block.begin, block.count); };
        const Tensor queries = rows_of(q_rows), grad = rows_of(grad_rows), sums = rows_of(sums_all);
        Tensor result = rows_of(result_rows), delta = rows_of(delta_all);
        Tensor scores = matrix_in(scores_all, block.count, block.keys);
        Tensor grad_scores = matrix_in(grad_scores_all, block.count, block.keys);
        as_part(queries).copy_(here(q));
        as_part(grad).copy_(here(grad_out));
        as_part(result).copy_(here(out));
        sums.copy_(logsumexp.select(0, b).select(0, head).narrow(0, block.begin, block.count));
        // What a row's probabilities have in common: the mean of their gradients under them.
        at::sum_out(delta, result.mul_(grad), {1});
        at::mm_out(scores, queries, keys_of(k_all).t());
        at::mm_out(grad_scores, grad, keys_of(v_all).t());
        const CappedSoftmax softmax = softmax_of(shape, block, scale, cap, scores, sums);
        const Rows grads = rows(grad_scores);
        for_rows(block, [&](int64_t begin, int64_t end) {
          capped_softmax_backward_rows(softmax, grads, delta.const_data_ptr(), begin, end);
        });
        at::mm_out(result, grad_scores, keys_of(k_all));
        here(dq).copy_(as_part(result));
        Tensor dk_here = keys_of(dk_all), dv_here = keys_of(dv_all);
        at::addmm_out(dk_here, dk_here, grad_scores.t(), queries);
        at::addmm_out(dv_here, dv_here, scores.t(), grad);
      }
      if ((head + 1) % shape.group() != 0) continue;
      part_of(dk, b, kv_head, 0, shape.keys).copy_(as_part(dk_all));
      part_of(dv, b, kv_head, 0, shape.keys).copy_(as_part(dv_all));
    }
}

}  // namespace plimsoll::ops
