#include "ops/workspace_cpu.h"

#include <algorithm>
#include <string_view>

#include "ops/attention_plan.h"
#include "ops/linear_cross_entropy_plan.h"
#include "ops/optimizer/adafactor_plan.h"
#include "ops/quantized_plan.h"
#include "ops/rows.h"
#include "plimsoll/error.h"
#include "record/op_call.h"

namespace plimsoll::ops {
namespace {

int64_t rounded(int64_t bytes) {
  return div_up(bytes, 64) * 64;
}

int64_t accumulator_bytes(DType dtype) {
  return dtype == DType::float64 ? 8 : 4;
}

const View& tensor(const Op& op, size_t argument) {
  check(argument < op.arguments.size() && op.arguments[argument].views.size() == 1, op.name + ": operand missing");
  return op.arguments[argument].views[0];
}

int64_t bytes_of(const View& view) {
  return rounded(elements(view.sizes) * element_bytes(view.dtype));
}

/// What as_rows() copies.
int64_t rows_copy(const View& view) {
  return row_stride(view.sizes, view.strides) ? 0 : bytes_of(view);
}

/// rms_norm's weight in the accumulator's type.
int64_t weight_copy(const View& weight) {
  const bool as_it_is = weight.dtype == DType::float32 || weight.dtype == DType::float64;
  if (as_it_is && is_contiguous(weight.sizes, weight.strides)) return 0;
  return rounded(elements(weight.sizes) * accumulator_bytes(weight.dtype));
}

int64_t rms_norm(const Op& op) {
  return rows_copy(tensor(op, 0)) + weight_copy(tensor(op, 1));
}

int64_t rms_norm_backward(const Op& op) {
  const View& x = tensor(op, 1);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, norm_block_rows(count));
  return rows_copy(tensor(op, 0)) + rows_copy(x) + weight_copy(tensor(op, 2)) +
         rounded(blocks * width * accumulator_bytes(x.dtype));
}

int64_t rope(const Op& op) {
  const View& x = tensor(op, 0);
  if (elements(x.sizes) == 0) return 0;
  return (x.strides[3] == 1 ? 0 : bytes_of(x)) + rounded(x.sizes[3] / 2 * 8);
}

int64_t matrix_copy(const View& view) {
  return view.strides[1] == 1 && view.strides[0] >= view.sizes[1] ? 0 : bytes_of(view);
}

int64_t matrix_scratch(DType dtype, int threads) {
  return element_bytes(dtype) == 2 ? threads * kMatrixScratchBytes : 0;
}

int64_t linear_cross_entropy(const Op& op, bool wants_weight, int threads) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  const int64_t tokens = x.sizes[0], vocabulary = weight.sizes[0], width = x.sizes[1], bytes = element_bytes(x.dtype);
  const LossChunks chunks = loss_chunks(tokens, vocabulary, bytes);
  int64_t total = matrix_copy(x) + matrix_copy(weight) + rounded(tokens * accumulator_bytes(x.dtype)) +
                  rounded(chunks.rows * vocabulary * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 1)
    total += rounded(std::min(kLossGradientBlock, vocabulary) * width * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 2) total += bytes_of(weight);
  return total + matrix_scratch(x.dtype, threads);
}

/// The integer or truth value that argument `index` was given; 0 where the trace has no constants.
int64_t integer(const Op& op, size_t index) {
  if (!op.call || index >= op.call->constants.size()) return 0;
  const c10::IValue& value = op.call->constants[index];
  return value.isBool() ? value.toBool() : value.isInt() ? value.toInt() : 0;
}

/// A copy of x or its gradient as a matrix.
int64_t contiguous_copy(const View& view) {
  return is_contiguous(view.sizes, view.strides) ? 0 : bytes_of(view);
}

/// A piece of the weight, taken apart.
int64_t quantized_linear(const Op& op, int threads) {
  const View &x = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = x.sizes.back(), bytes = element_bytes(x.dtype);
  if (elements(x.sizes) == 0 || rows == 0) return 0;
  return contiguous_copy(x) + rounded(quantized_tile_rows(rows, width, bytes) * width * bytes) +
         matrix_scratch(x.dtype, threads);
}

int64_t quantized_linear_backward(const Op& op, int threads) {
  const View &grad = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = op.results.at(0).sizes.back(), bytes = element_bytes(grad.dtype);
  if (elements(grad.sizes) == 0 || width == 0) return 0;
  return contiguous_copy(grad) + rounded(rows * std::min(width, quantized_tile_columns(rows, width, bytes)) * bytes) +
         matrix_scratch(grad.dtype, threads);
}

double number(const Op& op, size_t index) {
  if (!op.call || index >= op.call->constants.size()) return 0;
  const c10::IValue& value = op.call->constants[index];
  return value.isDouble() ? value.toDouble() : 0;
}

AttentionShape attention_shape(const Op& op, size_t q_at, size_t causal_at) {
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

/// capped_attention_cpu.cpp: so many matrices of a block's queries, of a head's keys and of a block's scores, and so
/// many numbers a query.
int64_t capped_attention(const AttentionShape& shape, DType dtype, int64_t queries, int64_t keys, int64_t scores,
                         int64_t numbers) {
  const std::vector<QueryBlock> blocks = capped_blocks(shape);
  const int64_t rows = blocks.front().count, bytes = accumulator_bytes(dtype);
  return queries * rounded(rows * shape.width * bytes) + keys * rounded(shape.keys * shape.width * bytes) +
         scores * rounded(rows * most_keys(blocks) * bytes) + numbers * rounded(rows * bytes);
}

/// The copies of operands whose last dimension is not side by side, and the mask of a window.
int64_t attention_fixed(const Op& op, const AttentionShape& shape, size_t q_at) {
  int64_t total = 0;
  for (size_t i = q_at; i < q_at + 3; ++i)
    if (tensor(op, i).strides[3] != 1) total += bytes_of(tensor(op, i));
  if (needs_window_mask(shape)) {
    const int64_t rows = window_mask_rows(shape);
    total += rounded(rows * (rows + shape.window - 1) * accumulator_bytes(tensor(op, q_at).dtype));
  }
  return total;
}

// libtorch's flash kernels (FlashAttentionKernel.cpp) tile queries and keys, and take scratch for one tile a thread.
struct FlashTile {
  FlashTile(int64_t all_queries, int64_t all_keys)
      : queries(std::min<int64_t>(all_queries, all_queries >= 768   ? 256
                                               : all_queries >= 192 ? 64
                                                                    : 32)),
        keys(std::min<int64_t>(all_keys, 512)) {}
  int64_t queries, keys;
};

int64_t attention(const Op& op, int threads) {
  const AttentionShape shape = attention_shape(op, 0, 3);
  const DType dtype = tensor(op, 0).dtype;
  if (shape.capped) return capped_attention(shape, dtype, 2, 2, 1, 1);
  const int64_t bytes = element_bytes(dtype);
  int64_t largest = 0;
  for (const QueryBlock& block : query_blocks(shape)) {
    const FlashTile tile(block.count, block.keys);
    const int64_t scores = tile.queries * tile.keys;
    largest = std::max(largest, rounded(threads * (scores + 2 * tile.queries + tile.queries * shape.width) *
                                        accumulator_bytes(dtype)) +
                                    (bytes == 2 ? rounded(threads * scores * bytes) : 0));
  }
  return attention_fixed(op, shape, 0) + largest;
}

/// The strides of [batch, tokens, heads, width], the part of grad_out that one call is given.
bool gradient_is_copied(const View& grad, const AttentionShape& shape, const HeadRange& range,
                        const QueryBlock& block) {
  const int64_t group = shape.group();
  const auto& s = grad.strides;
  const bool by_heads = range.kv_heads > 1 && group > 1;  // key heads take the place of the batch
  const int64_t sizes[] = {by_heads ? range.kv_heads : range.batches, block.count,
                           by_heads ? group : range.kv_heads * group, shape.width};
  const int64_t strides[] = {by_heads ? group * s[1] : s[0], s[2], s[1], s[3]};
  return !is_contiguous(sizes, strides);
}

int64_t attention_backward(const Op& op, int threads) {
  const AttentionShape shape = attention_shape(op, 1, 6);
  const View& grad = tensor(op, 0);
  if (shape.capped) return capped_attention(shape, grad.dtype, 3, 4, 2, 2);
  const int64_t bytes = element_bytes(grad.dtype), accumulator = accumulator_bytes(grad.dtype), group = shape.group();
  int64_t largest = 0;
  for (const HeadRange& range : backward_heads(shape, threads)) {
    const int64_t key_heads = range.batches * range.kv_heads, units = key_heads * group;
    const int64_t own_gradients = group == 1 ? 0 : 2 * rounded(units * shape.keys * shape.width * bytes);
    for (const QueryBlock& block : query_blocks(shape)) {
      const FlashTile tile(block.count, block.keys);
      const int64_t scores = 2 * threads * tile.queries * tile.keys;
      const int64_t running = div_up(units, div_up(units, std::min<int64_t>(threads, units)));
      int64_t call = rounded(scores * accumulator) + (bytes == 2 ? rounded(scores * bytes) : 0) +
                     running * rounded(tile.queries * accumulator);
      if (gradient_is_copied(grad, shape, range, block)) call += rounded(units * block.count * shape.width * bytes);
      largest = std::max(largest, own_gradients + call);
    }
  }
  return attention_fixed(op, shape, 1) + largest + matrix_scratch(grad.dtype, threads);
}

/// The gradient is copied where it lies in another order than what it is added to. Of 8 bits it never does.
int64_t gradient_copy(const Op& op) {
  const View &target = tensor(op, 0), &gradient = tensor(op, 2);
  return same_order(gradient.sizes, gradient.strides, target.strides) ? 0 : bytes_of(gradient);
}

int64_t adafactor(const Op& op) {
  const View& parameter = tensor(op, 0);
  const int64_t count = elements(parameter.sizes), parts = adafactor_parts(count);
  if (count == 0) return gradient_copy(op);
  const MatrixShape shape = matrix_shape(parameter.sizes, parameter.strides);
  return gradient_copy(op) + rounded(parts * shape.columns * 4) + rounded((shape.rows + parts) * 8);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads) {
  const std::string_view name = std::string_view(op.name).substr(0, op.name.find('.'));
  if (is_one_of(name, {"plimsoll::adamw_", "plimsoll::lion_", "plimsoll::sgd_", "plimsoll::momentum_sgd_",
                       "plimsoll::accumulate_"}))
    return gradient_copy(op);
  if (name == "plimsoll::adafactor_") return adafactor(op);
  if (name == "plimsoll::nesterov_momentum_") {
    const View& gradient = tensor(op, 0);
    return is_contiguous(gradient.sizes, gradient.strides) ? 0 : bytes_of(gradient);
  }
  if (is_one_of(name, {"plimsoll::block_norm", "plimsoll::unpacked"})) return 0;
  if (op.name == "plimsoll::attention") return attention(op, threads);
  if (op.name == "plimsoll::attention_backward") return attention_backward(op, threads);
  if (op.name == "plimsoll::linear_cross_entropy") {
    // An unwanted gradient is an empty result.
    check(op.results.size() == 4, "plimsoll::linear_cross_entropy has four results");
    return linear_cross_entropy(op, elements(op.results[3].sizes) > 0, threads);
  }
  if (op.name == "plimsoll::linear_cross_entropy_loss") return linear_cross_entropy(op, false, threads);
  if (op.name == "plimsoll::rms_norm") return rms_norm(op);
  if (op.name == "plimsoll::rms_norm_backward") return rms_norm_backward(op);
  if (op.name == "plimsoll::rope") return rope(op);
  if (op.name == "plimsoll::quantized_linear") return quantized_linear(op, threads);
  if (op.name == "plimsoll::quantized_linear_backward") return quantized_linear_backward(op, threads);
  if (op.name == "plimsoll::quantize_weight") return rows_copy(tensor(op, 0));
  if (op.name == "plimsoll::quantize_scales" || op.name == "plimsoll::dequantize_weight") return 0;
  if (op.name == "plimsoll::swiglu" || op.name == "plimsoll::geglu") return rows_copy(tensor(op, 0));
  if (op.name == "plimsoll::swiglu_backward" || op.name == "plimsoll::geglu_backward")
    return rows_copy(tensor(op, 0)) + rows_copy(tensor(op, 1));
  return std::nullopt;
}

}  // namespace plimsoll::ops
