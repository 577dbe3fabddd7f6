// Computes the scratch of each group of operators: attention, norms, rotary embedding and gated activations, the loss
// head, quantized linear layers, scan and convolution, updates, norms of gradients and exchanges.
#include "ops/workspace/scratch_row.h"

#include "cost/operators.h"
#include "ops/attention/attention_plan.h"
#include "ops/kernels_cpu.h"
#include "ops/layers/group_norm.h"
#include "ops/layers/quantized_plan.h"
#include "ops/libtorch_types.h"
#include "ops/loss/linear_cross_entropy_blocks.h"
#include "ops/loss/loss_kernel.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/rows.h"
#include "ops/scan/conv_kernels_cpu.h"
#include "ops/scan/ssd_scan_chunks.h"

namespace plimsoll::ops {
namespace {

double number(const Op& op, size_t index) {
  if (!op.call || index >= op.call->constants.size()) return 0;
  const c10::IValue& value = op.call->constants[index];
  return value.isDouble() ? value.toDouble() : 0;
}

/// Returns the shape of an attention whose q, k and v begin at argument `q_at`, and whose causal, window, scale,
/// softcap, mask, seed and dropout begin at `causal_at`.
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
          number(op, causal_at + 3) > 0,
          causal_at + 4 < op.arguments.size() && op.arguments[causal_at + 4].kind == Argument::Kind::tensor,
          number(op, causal_at + 6) > 0};
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

/// Returns the scratch of attention_blocks_forward() and attention_blocks_backward(). It has `queries` buffers of a
/// block's queries, `scores` buffers of its scores, and `sums` buffers of keys in float32. With 16-bit operands it has
/// as many buffers of scores in 16 bits. Masks are read where they are, and dropout's bits are computed: neither needs
/// scratch.
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
  if (!on.flash_attention || !flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 2, 1, 0, on);
  return flash_copy(q, on) + flash_copy(k, on) + flash_copy(v, on) +
         flash_forward_scratch(shape, on.multiprocessors, on.alignment);
}

std::optional<int64_t> attention_backward_cuda(const Op& op, const ScratchDevice& on) {
  const AttentionShape shape = recorded_attention(op, 1, 6);
  const View &grad = tensor(op, 0), &q = tensor(op, 1), &k = tensor(op, 2), &v = tensor(op, 3), &out = tensor(op, 4);
  if (!on.flash_attention || !flash_takes(shape, q.dtype)) return attention_blocks(shape, k, v, 3, 2, 2, on);
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

namespace {

/// Returns the bytes of the copy of a norm's weight. Kernels of the CPU read it in the accumulator's type.
template <bool gpu>
int64_t weight_copy(const View& weight, const ScratchDevice& on) {
  if (gpu) return on.contiguous_copy(weight);
  const bool is_plain_float = weight.dtype == DType::float32 || weight.dtype == DType::float64;
  if (is_plain_float && is_contiguous(weight.sizes, weight.strides)) return 0;
  return on.rounded(elements(weight.sizes) * accumulator_bytes(weight.dtype));
}

template <bool gpu>
std::optional<int64_t> rms_norm(const Op& op, const ScratchDevice& on) {
  return on.rows_copy(tensor(op, 0)) + weight_copy<gpu>(tensor(op, 1), on);
}

/// Returns the scratch of an op whose grad_y, x and weight begin at argument `at`.
template <bool gpu, size_t at>
std::optional<int64_t> rms_norm_backward(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, at + 1);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, gpu ? cuda_norm_block_rows(count) : norm_block_rows(count));
  return on.rows_copy(tensor(op, at)) + on.rows_copy(x) + weight_copy<gpu>(tensor(op, at + 2), on) +
         on.rounded(blocks * width * accumulator_bytes(x.dtype));
}

template <bool gpu>
std::optional<int64_t> add_rms_norm(const Op& op, const ScratchDevice& on) {
  return on.rows_copy(tensor(op, 1)) + on.rows_copy(tensor(op, 2)) + weight_copy<gpu>(tensor(op, 3), on);
}

/// Returns the scratch of an op whose grad is argument `at`, followed by the arguments of rms_norm's backward.
template <bool gpu, size_t at = 1>
std::optional<int64_t> rms_norm_backward_add(const Op& op, const ScratchDevice& on) {
  const int64_t total = on.rows_copy(tensor(op, at)) + rms_norm_backward<gpu, at + 1>(op, on).value();
  if (gpu) return total;
  // Each thread holds some rows of dx.
  const View& x = tensor(op, at + 2);
  const int64_t width = x.sizes.back(), rows = rows_per_pass_of(elements(x.sizes) / width, width);
  return total + on.rounded(on.threads * rows * width * element_bytes(x.dtype));
}

template <bool gpu>
std::optional<int64_t> rope(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, 0);
  if (elements(x.sizes) == 0) return 0;
  const int64_t copy = x.strides[3] == 1 ? 0 : on.bytes_of(x);
  return gpu ? copy : copy + on.rounded(x.sizes[3] / 2 * 8);  // frequencies; a GPU has them in the launch
}

/// Returns the bytes of the copy of an operand of a group norm whose layout is not that of the result for x.
int64_t group_norm_copy(const View& operand, const View& x, const ScratchDevice& on) {
  const bool last = is_channels_last(x.sizes, x.strides);
  const bool agrees =
      last ? same_order(x.sizes, operand.strides, x.strides) : is_contiguous(operand.sizes, operand.strides);
  return agrees ? 0 : on.bytes_of(operand);
}

std::optional<int64_t> group_moments(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, 0);
  return group_norm_copy(x, x, on) +
         on.rounded(group_moments_scratch(x.sizes, is_channels_last(x.sizes, x.strides)) * accumulator_bytes(x.dtype));
}

std::optional<int64_t> group_normalize(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, 0);
  return group_norm_copy(x, x, on) + weight_copy<false>(tensor(op, 3), on) + weight_copy<false>(tensor(op, 4), on) +
         on.rounded(group_normalize_scratch(x.sizes) * accumulator_bytes(x.dtype));
}

std::optional<int64_t> group_norm_backward(const Op& op, const ScratchDevice& on) {
  const View &grad = tensor(op, 0), &x = tensor(op, 1);
  const bool last = is_channels_last(x.sizes, x.strides);
  return group_norm_copy(x, x, on) + group_norm_copy(grad, x, on) + weight_copy<false>(tensor(op, 4), on) +
         weight_copy<false>(tensor(op, 5), on) +
         on.rounded(group_norm_backward_scratch(x.sizes, last) * accumulator_bytes(x.dtype));
}

constexpr ScratchRow kLayerScratch[] = {
    {"plimsoll::group_norm", no_scratch, no_scratch},
    {"plimsoll::group_moments", group_moments, no_scratch},  // no kernels for GPUs
    {"plimsoll::group_normalize", group_normalize, no_scratch},
    {"plimsoll::group_norm_backward", group_norm_backward, no_scratch},
    {"plimsoll::rms_norm", rms_norm<false>, rms_norm<true>},
    {"plimsoll::rms_norm_backward", rms_norm_backward<false, 0>, rms_norm_backward<true, 0>},
    {"plimsoll::add_rms_norm", add_rms_norm<false>, add_rms_norm<true>},
    {"plimsoll::rms_norm_backward_add", rms_norm_backward_add<false>, rms_norm_backward_add<true>},
    {"plimsoll::rms_norm_backward_add_cast", rms_norm_backward_add<false, 2>, rms_norm_backward_add<true, 2>},
    {"plimsoll::rope", rope<false>, rope<true>},
    {"plimsoll::rope_", rope<false>, rope<true>},
    {"plimsoll::swiglu", rows_copies<0>, rows_copies<0>},
    {"plimsoll::swiglu_backward", rows_copies<0, 1>, rows_copies<0, 1>},
    {"plimsoll::geglu", rows_copies<0>, rows_copies<0>},
    {"plimsoll::geglu_backward", rows_copies<0, 1>, rows_copies<0, 1>},
};

}  // namespace

std::span<const ScratchRow> layer_scratch() {
  return kLayerScratch;
}

namespace {

int64_t matrix_copy(const View& view, const ScratchDevice& on) {
  return is_matrix(view) ? 0 : on.bytes_of(view);
}

LossShape loss_shape(const Op& op, bool wants_x, bool wants_weight) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  return {x.sizes[0], weight.sizes[0], x.sizes[1], x.dtype, wants_x, wants_weight};
}

/// Returns the scratch of the matmuls that linear_cross_entropy_chunks() requests.
int64_t loss_products(const LossShape& shape, const LossChunks& chunks, const View& x, const View& weight,
                      const ScratchDevice& on) {
  MaxMatmulScratch most(on);
  const View rows_of_weight = is_matrix(weight) ? weight : matrix(weight.dtype, shape.vocabulary, shape.width);
  const int64_t x_stride = is_matrix(x) ? x.strides[0] : shape.width;
  const bool split = element_bytes(shape.dtype) == 2 && chunks.count > 1;
  for (const int64_t rows : piece_sizes(shape.tokens, chunks.rows)) {
    const View part = matrix(shape.dtype, rows, shape.width, x_stride);
    const View logits = matrix(shape.dtype, rows, shape.vocabulary);
    most.add(part, transposed(rows_of_weight), logits);
    if (shape.wants_x) most.add(logits, rows_of_weight, matrix(shape.dtype, rows, shape.width));
    if (!shape.wants_weight) continue;
    // The first chunk's matmul is the gradient; the matmuls of the others are added to it.
    const View gradient = matrix(shape.dtype, shape.vocabulary, shape.width);
    if (rows == chunks.rows) most.add(transposed(logits), part, gradient);
    const bool is_added = rows != chunks.rows || shape.tokens >= 2 * rows;
    if (is_added && !split) most.add(transposed(logits), part, gradient, /*adds=*/true);
    if (!is_added || !split) continue;
    for (const int64_t block : piece_sizes(shape.vocabulary, kLossGradientBlock)) {
      View some = logits;
      some.sizes[1] = block;
      most.add(transposed(some), part, matrix(shape.dtype, block, shape.width));
    }
  }
  return most.bytes();
}

/// Returns the bytes of copies and of the chunks' logits and gradients, without those of matmuls.
int64_t loss_in_chunks(const LossShape& shape, const LossChunks& chunks, const Op& op, const ScratchDevice& on) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  const int64_t bytes = element_bytes(x.dtype);
  int64_t total = matrix_copy(x, on) + matrix_copy(weight, on) + on.rounded(shape.tokens * accumulator_bytes(x.dtype)) +
                  on.rounded(chunks.rows * shape.vocabulary * bytes);
  if (!shape.wants_weight || bytes != 2 || chunks.count == 1) return total;
  if (chunks.float32_sums) return total + on.rounded(shape.vocabulary * shape.width * 4);
  total += on.rounded(std::min(chunks.gradient_block, shape.vocabulary) * shape.width * bytes);
  if (chunks.count > 2) total += on.bytes_of(weight);
  return total;
}

int64_t loss_on_cpu(const Op& op, const LossShape& shape, const ScratchDevice& on) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  if (loss_in_blocks(shape))
    return matrix_copy(x, on) + matrix_copy(weight, on) + on.rounded(shape.tokens * 4) +
           on.rounded(loss_blocks(shape, on.threads).total);
  const LossChunks chunks = loss_chunks(shape.tokens, shape.vocabulary, element_bytes(x.dtype), kLossChunkBytes);
  return loss_in_chunks(shape, chunks, op, on) + loss_products(shape, chunks, x, weight, on);
}

/// Returns the chunks of a loss head on a GPU. The last argument of the forms for memory that remains is their
/// `chunk_tokens`.
LossChunks cuda_chunks_of(const Op& op) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  std::optional<int64_t> chunk_tokens;
  if (op.name.ends_with(".chunks")) chunk_tokens = integer(op, op.arguments.size() - 1);
  return cuda_loss_chunks(x.sizes[0], weight.sizes[0], x.sizes[1], element_bytes(x.dtype), chunk_tokens);
}

int64_t loss_on_cuda(const Op& op, const LossShape& shape, const ScratchDevice& on) {
  return loss_in_chunks(shape, cuda_chunks_of(op), op, on);
}

using LossRule = int64_t (*)(const Op&, const LossShape&, const ScratchDevice&);

template <LossRule rule>
std::optional<int64_t> loss_with_gradients(const Op& op, const ScratchDevice& on) {
  // A gradient that is not requested is an empty result.
  check(op.results.size() == 4, op.name + " has four results");
  return rule(op, loss_shape(op, elements(op.results[2].sizes) > 0, elements(op.results[3].sizes) > 0), on);
}
template <LossRule rule>
std::optional<int64_t> loss_alone(const Op& op, const ScratchDevice& on) {
  return rule(op, loss_shape(op, false, false), on);
}

constexpr ScratchRow kLossScratch[] = {
    {"plimsoll::linear_cross_entropy", loss_with_gradients<loss_on_cpu>, loss_with_gradients<loss_on_cuda>},
    {"plimsoll::linear_cross_entropy_loss", loss_alone<loss_on_cpu>, loss_alone<loss_on_cuda>},
};

}  // namespace

std::span<const ScratchRow> loss_scratch() {
  return kLossScratch;
}

namespace {

/// Returns the bytes of a dequantized piece of the weight, and on the CPU of the matmuls with it.
template <bool gpu>
std::optional<int64_t> quantized_linear(const Op& op, const ScratchDevice& on) {
  const View &x = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = x.sizes.back(), bytes = element_bytes(x.dtype);
  if (elements(x.sizes) == 0 || rows == 0) return 0;
  const int64_t tile =
      gpu ? quantized_tile_rows(rows, width, bytes, kQuantizedGpuTileBytes) : quantized_tile_rows(rows, width, bytes);
  const int64_t total = on.contiguous_copy(x) + on.rounded(tile * width * bytes);
  if (gpu) return total;
  MaxMatmulScratch most(on);
  for (const int64_t tokens : piece_sizes(elements(x.sizes) / width, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(rows, tile))
      most.add(matrix(x.dtype, tokens, width), transposed(matrix(x.dtype, columns, width)),
               matrix(x.dtype, tokens, columns, rows));
  return total + most.bytes();
}

template <bool gpu>
std::optional<int64_t> quantized_linear_backward(const Op& op, const ScratchDevice& on) {
  const View &grad = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = op.results.at(0).sizes.back(), bytes = element_bytes(grad.dtype);
  if (elements(grad.sizes) == 0 || width == 0) return 0;
  const int64_t tile = std::min(width, gpu ? quantized_tile_columns(rows, width, bytes, kQuantizedGpuTileBytes)
                                           : quantized_tile_columns(rows, width, bytes));
  const int64_t total = on.contiguous_copy(grad) + on.rounded(rows * tile * bytes);
  if (gpu) return total;
  MaxMatmulScratch most(on);
  for (const int64_t tokens : piece_sizes(elements(grad.sizes) / rows, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(width, tile))
      most.add(matrix(grad.dtype, tokens, rows), matrix(grad.dtype, rows, columns),
               matrix(grad.dtype, tokens, columns, width));
  return total + most.bytes();
}

constexpr ScratchRow kQuantizedScratch[] = {
    {"plimsoll::quantized_linear", quantized_linear<false>, quantized_linear<true>},
    {"plimsoll::quantized_linear_backward", quantized_linear_backward<false>, quantized_linear_backward<true>},
    {"plimsoll::quantize_weight", rows_copies<0>, rows_copies<0>},
    {"plimsoll::quantize_scales", no_scratch, no_scratch},
    {"plimsoll::dequantize_weight", no_scratch, no_scratch},
};

}  // namespace

std::span<const ScratchRow> quantized_scratch() {
  return kQuantizedScratch;
}

namespace {

/// Returns the bytes of copies, and of scratch for each thread of the CPU or of one panel on a GPU. The operands follow
/// the gradient if there is one.
template <bool gpu, bool backward>
std::optional<int64_t> ssd_scan(const Op& op, const ScratchDevice& on) {
  constexpr size_t kX = backward ? 1 : 0;
  const View &x = tensor(op, kX), &b = tensor(op, kX + 3);
  // The states, a result, determine the number of chunks; the length of a chunk is a constant of the call.
  check(op.results.size() == (backward ? 7 : 2), op.name + " has its states as the last result");
  const int64_t time = x.sizes[1], given = integer(op, kX + 6);
  const int64_t chunk = given > 0 ? given : div_up(time, op.results.back().sizes[3]);
  const SsdShape shape{x.sizes[0], time, x.sizes[2], x.sizes[3], b.sizes[2], b.sizes[3], chunk, false};
  const int64_t wide = accumulator_bytes(x.dtype);
  int64_t total = on.inner_contiguous_copy(x) + on.inner_contiguous_copy(b) +
                  on.inner_contiguous_copy(tensor(op, kX + 4)) + on.contiguous_copy(tensor(op, kX + 2)) +
                  on.contiguous_copy(tensor(op, kX + 5));
  total += on.rounded(gpu ? cuda::SsdPanels(shape, element_bytes(x.dtype), backward).bytes
                          : on.threads * (backward ? ssd_backward_scratch(shape) : ssd_forward_scratch(shape)) * wide);
  if (backward) total += on.inner_contiguous_copy(tensor(op, 0)) + on.rounded(ssd_partial_sums(shape) * wide);
  return total;
}

template <bool gpu, bool backward>
std::optional<int64_t> causal_conv1d(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, backward ? 1 : 0);
  const int64_t taps = (kConvTaps + 1) * x.sizes[2] * accumulator_bytes(x.dtype);
  int64_t total = on.inner_contiguous_copy(x) + (gpu ? 0 : on.rounded(taps));
  if (backward)
    total += on.inner_contiguous_copy(tensor(op, 0)) +
             on.rounded(x.sizes[0] * div_up(x.sizes[1], conv_block(x.sizes[1])) * taps);
  return total;
}

constexpr ScratchRow kScanScratch[] = {
    {"plimsoll::ssd_scan", ssd_scan<false, false>, ssd_scan<true, false>},
    {"plimsoll::ssd_scan_backward", ssd_scan<false, true>, ssd_scan<true, true>},
    {"plimsoll::causal_conv1d", causal_conv1d<false, false>, causal_conv1d<true, false>},
    {"plimsoll::causal_conv1d_backward", causal_conv1d<false, true>, causal_conv1d<true, true>},
};

}  // namespace

std::span<const ScratchRow> scan_scratch() {
  return kScanScratch;
}

namespace {

std::optional<int64_t> gradient_copies(const Op& op, const ScratchDevice& on) {
  return on.gradient_copy(op);
}

std::optional<int64_t> gradient_in_order(const Op& op, const ScratchDevice& on) {
  return on.contiguous_copy(tensor(op, 0));
}

template <bool gpu>
std::optional<int64_t> adafactor(const Op& op, const ScratchDevice& on) {
  const View& parameter = tensor(op, 0);
  const int64_t count = elements(parameter.sizes);
  if (count == 0) return on.gradient_copy(op);
  const MatrixShape shape = matrix_shape(parameter.sizes, parameter.strides);
  if (gpu) return on.gradient_copy(op) + on.rounded(cuda::adafactor_scratch_bytes(shape));
  const int64_t parts = adafactor_parts(count);
  return on.gradient_copy(op) + on.rounded(parts * shape.columns * 4) + on.rounded((shape.rows + parts) * 8);
}

std::optional<int64_t> block_norm_cuda(const Op&, const ScratchDevice& on) {
  return on.rounded(cuda::kNormParts * 8);
}

// The scratch of the norm of one gradient, or of a group: on the CPU the largest copy of a gradient with gaps, on a GPU
// all of them and the sums of the blocks of one launch.
template <bool gpu>
std::optional<int64_t> gradient_norm(const Op& op, const ScratchDevice& on) {
  const std::vector<View>& gradients = op.arguments.at(2).views;
  int64_t copies = 0, most = 0, blocks = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (i % cuda::kNormsOfLaunch == 0) blocks = 0;
    const int64_t count = elements(gradients[i].sizes);
    const int64_t copy =
        is_dense(gradients[i].sizes, gradients[i].strides) || count == 0 ? 0 : on.bytes_of(gradients[i]);
    copies = gpu ? copies + copy : std::max(copies, copy);
    blocks += div_up(count, kCudaNormBlock);
    most = std::max(most, blocks);
  }
  return copies + (gpu ? on.rounded(most * 8) : 0);
}

std::optional<int64_t> reduction_cuda(const Op& op, const ScratchDevice& on) {
  return elements(tensor(op, 1).sizes) == 0 ? 0 : device_landing_bytes(on.bytes_of(tensor(op, 1)));
}

constexpr ScratchRow kUpdateScratch[] = {
    {"plimsoll::adamw_", gradient_copies, gradient_copies},
    {"plimsoll::lion_", gradient_copies, gradient_copies},
    {"plimsoll::sgd_", gradient_copies, gradient_copies},
    {"plimsoll::momentum_sgd_", gradient_copies, gradient_copies},
    {"plimsoll::accumulate_", gradient_copies, gradient_copies},
    {"plimsoll::adafactor_", adafactor<false>, adafactor<true>},
    {"plimsoll::nesterov_momentum_", gradient_in_order, gradient_in_order},
    {"plimsoll::block_norm", no_scratch, block_norm_cuda},
    {"plimsoll::unpacked", no_scratch, no_scratch},
    {"plimsoll::gradient_norm_", gradient_norm<false>, gradient_norm<true>},
    {"plimsoll::gradient_block_sums_", nullptr, no_scratch},
    {"plimsoll::norms_of_blocks_", nullptr, no_scratch},
    {"plimsoll::reduce_scatter_", nullptr, reduction_cuda},
    {"plimsoll::all_reduce_", nullptr, reduction_cuda},
    {"plimsoll::all_gather_", nullptr, no_scratch},
    {"plimsoll::gather_", nullptr, no_scratch},
    {"plimsoll::broadcast_", nullptr, no_scratch},
};

}  // namespace

std::span<const ScratchRow> update_scratch() {
  return kUpdateScratch;
}

namespace {

/// The queries of a tile of flash kernels. A tile computes all scores of its keys, also masked ones.
constexpr int64_t kQueryTile = 128;

/// Returns the scores of one head that kernels compute.
double computed_scores(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.queries), keys = static_cast<double>(shape.keys);
  if (!shape.causal && shape.window == 0) return queries * keys;
  // Query i sees min(i + 1, window) keys. The diagonal cuts a tile in halves, and so does the window's other edge.
  const double window = shape.window > 0 ? std::min(static_cast<double>(shape.window), keys) : keys;
  const double seen = window * keys - window * window / 2;  // of the triangle, the strip along the diagonal
  const double cut = static_cast<double>(kQueryTile) * (window < keys ? 1 : 0.5);
  return std::min(queries * keys, queries / keys * (seen + keys * cut));
}

/// Returns the op's name without an overload: all forms of an operator have it.
std::string_view operator_name(const Op& op) {
  return std::string_view(op.name).substr(0, op.name.find('.'));
}

/// Returns the shape of a recorded attention; nullopt for all other ops.
std::optional<AttentionShape> attention_of(const Op& op) {
  const std::string_view name = operator_name(op);
  if (name == "plimsoll::attention") return recorded_attention(op, 0, 3);
  if (name == "plimsoll::attention_backward") return recorded_attention(op, 1, 6);
  return std::nullopt;
}

/// Returns the bytes of the loss head's kernels: the softmax reads the logits twice and writes their gradients once.
/// Sums of 16-bit weight gradients read a chunk's gradient, and read and write the sum and its rounding error; or the
/// matmuls read and write a float32 sum, which is converted at the end.
int64_t loss_bytes(const Op& op, bool gradients) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  const int64_t tokens = x.sizes[0], vocabulary = weight.sizes[0], bytes = element_bytes(x.dtype);
  const LossChunks chunks = cuda_chunks_of(op);
  const int64_t logits = tokens * vocabulary * bytes * (gradients ? 3 : 1);
  const bool sums = gradients && bytes == 2 && integer(op, 5) != 0 && chunks.count > 1;
  if (!sums) return logits;
  const int64_t each = chunks.float32_sums ? (chunks.count - 1) * 2 * 4 + 4 + bytes : (chunks.count - 1) * 5 * bytes;
  return logits + each * elements(weight.sizes);
}

/// Returns the bytes of a dequantized weight: codes and scales are read, the values written.
int64_t dequantized_bytes(const Op& op, int64_t width) {
  const View &codes = tensor(op, 1), &scales = tensor(op, 2);
  return elements(codes.sizes) + elements(scales.sizes) * element_bytes(scales.dtype) +
         codes.sizes[0] * width * element_bytes(tensor(op, 0).dtype);
}

}  // namespace

double computed_share(const Op& op) {
  const std::optional<AttentionShape> shape = attention_of(op);
  if (!shape || shape->queries == 0 || shape->keys == 0) return 1;
  return computed_scores(*shape) / (static_cast<double>(shape->queries) * static_cast<double>(shape->keys));
}

int64_t staged_bytes(const Op& op) {
  if (const std::optional<AttentionShape> shape = attention_of(op))
    return flash_takes(*shape, tensor(op, op.name == "plimsoll::attention" ? 0 : 1).dtype)
               ? 0
               : static_cast<int64_t>(score_bytes_of(op));
  const std::string_view name = operator_name(op);
  if (name == "plimsoll::linear_cross_entropy") return loss_bytes(op, true);
  if (name == "plimsoll::linear_cross_entropy_loss") return loss_bytes(op, false);
  if (name == "plimsoll::quantized_linear") return dequantized_bytes(op, tensor(op, 0).sizes.back());
  if (name == "plimsoll::quantized_linear_backward") return dequantized_bytes(op, op.results.at(0).sizes.back());
  return 0;
}

}  // namespace plimsoll::ops
