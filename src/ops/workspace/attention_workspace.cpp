// Computes the scratch of attention.
#include "ops/attention/attention_cpu_plan.h"
#include "ops/attention/attention_cuda_plan.h"
#include "ops/attention/attention_plan.h"
#include "ops/op_call.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

double number(const Op& op, size_t index) {
  if (!op.call || index >= op.call->constants.size()) return 0;
  const c10::IValue& value = op.call->constants[index];
  return value.isDouble() ? value.toDouble() : 0;
}

/// Returns the shape of an attention whose q, k and v begin at argument `q_at`, and whose causal, window, scale and
/// softcap begin at `causal_at`.
AttentionShape recorded_attention(const Op& op, size_t q_at, size_t causal_at) {
  const auto &q = tensor(op, q_at).sizes, &k = tensor(op, q_at + 1).sizes;
  return {q[0],
          q[1],
          k[1],
          q[2],
          k[2],
          q[3],
          integer(op, causal_at) != 0,
          integer(op, causal_at + 1),
          number(op, causal_at + 3) > 0};
}

/// Returns the bytes of copies on the CPU: operands whose last dimension is not contiguous.
int64_t attention_copies(const Op& op, std::initializer_list<size_t> operands, const ScratchDevice& on) {
  int64_t total = 0;
  for (const size_t i : operands)
    if (tensor(op, i).strides[3] != 1) total += on.bytes_of(tensor(op, i));
  return total;
}

std::optional<int64_t> attention_cpu(const Op& op, const ScratchDevice& on) {
  const AttentionShape shape = recorded_attention(op, 0, 3);
  return attention_copies(op, {0, 1, 2}, on) +
         attention_forward_scratch(shape, element_bytes(tensor(op, 0).dtype), on.threads);
}

std::optional<int64_t> attention_backward_cpu(const Op& op, const ScratchDevice& on) {
  const AttentionShape shape = recorded_attention(op, 1, 6);
  return attention_copies(op, {0, 1, 2, 3, 4}, on) +
         attention_backward_scratch(shape, element_bytes(tensor(op, 1).dtype), on.threads);
}

/// Returns [B, H, T, D] as a view [B, T, H, D].
View tokens_first(View view) {
  std::swap(view.sizes[1], view.sizes[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

/// Returns the bytes that flash_operand() copies. Buffers begin at multiples of 16 bytes.
int64_t flash_copy(const View& heads, const ScratchDevice& on) {
  const View tokens = tokens_first(heads);
  return flash_reads(tokens.sizes, tokens.strides, tokens.offset) ? 0 : on.bytes_of(heads);
}

/// Returns the bytes that as_matrices() copies.
int64_t matrices_copy(const View& heads, const ScratchDevice& on) {
  return heads.strides[3] == 1 && heads.strides[2] >= heads.sizes[3] ? 0 : on.bytes_of(heads);
}

/// Returns the scratch of attention_blocks_cuda.cpp. It has `queries` buffers of a block's queries, `scores` buffers of
/// its scores, and `sums` buffers of keys in float32. With 16-bit operands it has as many buffers of scores in 16 bits.
int64_t attention_blocks(const AttentionShape& shape, const View& k, const View& v, int64_t queries, int64_t scores,
                         int64_t sums, const ScratchDevice& on) {
  const ScoreBlocks cut = score_blocks(shape);
  const int64_t rows = cut.kv_heads * shape.group() * cut.rows, bytes = element_bytes(k.dtype),
                wide = accumulator_bytes(k.dtype);
  return matrices_copy(k, on) + matrices_copy(v, on) + queries * on.rounded(rows * shape.width * bytes) +
         scores *
             (on.rounded(rows * cut.max_keys * wide) + (bytes == 2 ? on.rounded(rows * cut.max_keys * bytes) : 0)) +
         sums * on.rounded(cut.kv_heads * shape.keys * shape.width * wide);
}

std::optional<int64_t> attention_cuda(const Op& op, const ScratchDevice& on) {
  const AttentionShape shape = recorded_attention(op, 0, 3);
  const View &q = tensor(op, 0), &k = tensor(op, 1), &v = tensor(op, 2);
  if (!flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 2, 1, 0, on);
  return flash_copy(q, on) + flash_copy(k, on) + flash_copy(v, on) +
         flash_forward_scratch(shape, on.multiprocessors, on.alignment);
}

std::optional<int64_t> attention_backward_cuda(const Op& op, const ScratchDevice& on) {
  const AttentionShape shape = recorded_attention(op, 1, 6);
  const View &grad = tensor(op, 0), &q = tensor(op, 1), &k = tensor(op, 2), &v = tensor(op, 3), &out = tensor(op, 4);
  if (!flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 3, 2, 2, on);
  return on.contiguous_copy(tokens_first(grad)) + on.contiguous_copy(tokens_first(out)) + flash_copy(q, on) +
         flash_copy(k, on) + flash_copy(v, on) + flash_backward_scratch(shape, on.multiprocessors, on.alignment);
}

constexpr ScratchRow kAttentionScratch[] = {
    {"plimsoll::attention", attention_cpu, attention_cuda},
    {"plimsoll::attention_backward", attention_backward_cpu, attention_backward_cuda},
};

}  // namespace

std::span<const ScratchRow> attention_scratch() {
  return kAttentionScratch;
}

}  // namespace plimsoll::ops
