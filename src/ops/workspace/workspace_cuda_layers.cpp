#include "ops/workspace/workspace_cuda_layers.h"

#include <algorithm>
#include <string_view>

#include "cost/operators.h"
#include "ops/attention/attention_cuda_plan.h"
#include "ops/cuda_plan.h"
#include "ops/layers/add_rms_norm_plan.h"
#include "ops/loss/linear_cross_entropy_plan.h"
#include "ops/rows.h"
#include "ops/workspace/workspace_rules.h"

namespace plimsoll::ops {
namespace {

constexpr ScratchRules kScratch{kCudaScratchAlignment};

/// Returns the scratch of an op whose grad_y, x and weight begin at argument `at`.
int64_t rms_norm_backward(const Op& op, size_t at) {
  const View& x = tensor(op, at + 1);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, cuda_norm_block_rows(count));
  return kScratch.rows_copy(tensor(op, at)) + kScratch.rows_copy(x) + kScratch.contiguous_copy(tensor(op, at + 2)) +
         kScratch.rounded(blocks * width * accumulator_bytes(x.dtype));
}

int64_t linear_cross_entropy(const Op& op, bool wants_weight) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  const int64_t tokens = x.sizes[0], vocabulary = weight.sizes[0], width = x.sizes[1], bytes = element_bytes(x.dtype);
  const LossChunks chunks = loss_chunks(tokens, vocabulary, bytes, cuda_loss_chunk_bytes(vocabulary));
  int64_t total = (is_matrix(x) ? 0 : kScratch.bytes_of(x)) + (is_matrix(weight) ? 0 : kScratch.bytes_of(weight)) +
                  kScratch.rounded(tokens * accumulator_bytes(x.dtype)) +
                  kScratch.rounded(chunks.rows * vocabulary * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 1)
    total += kScratch.rounded(std::min(kLossGradientBlock, vocabulary) * width * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 2) total += kScratch.bytes_of(weight);
  return total;
}

/// Returns [B, H, T, D] as a view [B, T, H, D].
View tokens_first(View view) {
  std::swap(view.sizes[1], view.sizes[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

/// Returns the bytes that flash_operand() copies. Buffers begin at multiples of 16 bytes.
int64_t flash_copy(const View& heads) {
  const View tokens = tokens_first(heads);
  return flash_reads(tokens.sizes, tokens.strides, tokens.offset) ? 0 : kScratch.bytes_of(heads);
}

/// Returns the bytes that as_matrices() copies.
int64_t matrices_copy(const View& heads) {
  return heads.strides[3] == 1 && heads.strides[2] >= heads.sizes[3] ? 0 : kScratch.bytes_of(heads);
}

/// Returns the scratch of attention_blocks_cuda.cpp. It has `queries` buffers of a block's queries, `scores` buffers of
/// its scores, and `sums` buffers of keys in float32. With 16-bit operands it has as many buffers of scores in 16 bits.
int64_t attention_blocks(const AttentionShape& shape, const View& k, const View& v, int64_t queries, int64_t scores,
                         int64_t sums) {
  const ScoreBlocks cut = score_blocks(shape);
  const int64_t rows = cut.kv_heads * shape.group() * cut.rows, bytes = element_bytes(k.dtype),
                wide = accumulator_bytes(k.dtype);
  return matrices_copy(k) + matrices_copy(v) + queries * kScratch.rounded(rows * shape.width * bytes) +
         scores * (kScratch.rounded(rows * cut.max_keys * wide) +
                   (bytes == 2 ? kScratch.rounded(rows * cut.max_keys * bytes) : 0)) +
         sums * kScratch.rounded(cut.kv_heads * shape.keys * shape.width * wide);
}

int64_t attention(const Op& op, int multiprocessors) {
  const AttentionShape shape = recorded_attention(op, 0, 3);
  const View &q = tensor(op, 0), &k = tensor(op, 1), &v = tensor(op, 2);
  if (!flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 2, 1, 0);
  return flash_copy(q) + flash_copy(k) + flash_copy(v) +
         flash_forward_scratch(shape, multiprocessors, kScratch.alignment);
}

int64_t attention_backward(const Op& op, int multiprocessors) {
  const AttentionShape shape = recorded_attention(op, 1, 6);
  const View &grad = tensor(op, 0), &q = tensor(op, 1), &k = tensor(op, 2), &v = tensor(op, 3), &out = tensor(op, 4);
  if (!flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 3, 2, 2);
  return kScratch.contiguous_copy(tokens_first(grad)) + kScratch.contiguous_copy(tokens_first(out)) + flash_copy(q) +
         flash_copy(k) + flash_copy(v) + flash_backward_scratch(shape, multiprocessors, kScratch.alignment);
}

int64_t gradient_norm(const Op& op) {
  const View& gradient = tensor(op, 2);
  // The order of the elements in memory does not matter if there are no gaps.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < gradient.sizes.size(); ++d)
    if (gradient.sizes[d] != 1) dims.emplace_back(gradient.strides[d], gradient.sizes[d]);
  std::ranges::sort(dims);
  bool dense = true;
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    dense = dense && stride == expected;
    expected *= size;
  }
  const int64_t count = elements(gradient.sizes);
  return (dense || count == 0 ? 0 : kScratch.bytes_of(gradient)) + kScratch.rounded(div_up(count, kCudaNormBlock) * 8);
}

}  // namespace

std::optional<int64_t> cuda_layers_workspace_bytes(const Op& op, int multiprocessors) {
  const OperatorRow* row = operator_row(op.name);
  const std::string_view name = row ? row->name : std::string_view(op.name);
  if (name == "plimsoll::attention") return attention(op, multiprocessors);
  if (name == "plimsoll::attention_backward") return attention_backward(op, multiprocessors);
  if (name == "plimsoll::linear_cross_entropy") {
    // A gradient that is not requested is an empty result.
    check(op.results.size() == 4, "plimsoll::linear_cross_entropy has four results");
    return linear_cross_entropy(op, elements(op.results[3].sizes) > 0);
  }
  if (name == "plimsoll::linear_cross_entropy_loss") return linear_cross_entropy(op, false);
  if (name == "plimsoll::rms_norm") return kScratch.rows_copy(tensor(op, 0)) + kScratch.contiguous_copy(tensor(op, 1));
  if (name == "plimsoll::rms_norm_backward") return rms_norm_backward(op, 0);
  if (name == "plimsoll::add_rms_norm")
    return kScratch.rows_copy(tensor(op, 1)) + kScratch.rows_copy(tensor(op, 2)) +
           kScratch.contiguous_copy(tensor(op, 3));
  if (name == "plimsoll::rms_norm_backward_add") return kScratch.rows_copy(tensor(op, 1)) + rms_norm_backward(op, 2);
  if (name == "plimsoll::rope") {
    const View& x = tensor(op, 0);
    return elements(x.sizes) == 0 || x.strides[3] == 1 ? 0 : kScratch.bytes_of(x);
  }
  if (name == "plimsoll::swiglu" || name == "plimsoll::geglu") return kScratch.rows_copy(tensor(op, 0));
  if (name == "plimsoll::swiglu_backward" || name == "plimsoll::geglu_backward")
    return kScratch.rows_copy(tensor(op, 0)) + kScratch.rows_copy(tensor(op, 1));
  if (name == "plimsoll::gradient_norm_") return gradient_norm(op);
  if (name == "plimsoll::gradient_block_sums_" || name == "plimsoll::norms_of_blocks_") return 0;
  return std::nullopt;
}

}  // namespace plimsoll::ops
