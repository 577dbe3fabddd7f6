#include "ops/workspace/workspace_cpu.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/arithmetic/matmul_throughput.h"
#include "ops/arithmetic/products_cpu_plan.h"
#include "ops/attention/attention_cpu_plan.h"
#include "ops/layers/add_rms_norm_plan.h"
#include "ops/loss/linear_cross_entropy_blocks_plan.h"
#include "ops/optimizer/adafactor_plan.h"
#include "ops/quantized/quantized_plan.h"
#include "ops/rows.h"
#include "ops/scan/conv_kernels_cpu.h"
#include "ops/scan/ssd_scan_chunks.h"
#include "ops/workspace/workspace_rules.h"
#include "trace/update_group.h"

namespace plimsoll::ops {
namespace {

constexpr ScratchRules kScratch{64};

/// Returns the bytes of the copy of rms_norm's weight in the accumulator's type.
int64_t weight_copy(const View& weight) {
  const bool is_plain_float = weight.dtype == DType::float32 || weight.dtype == DType::float64;
  if (is_plain_float && is_contiguous(weight.sizes, weight.strides)) return 0;
  return kScratch.rounded(elements(weight.sizes) * accumulator_bytes(weight.dtype));
}

int64_t rms_norm(const Op& op) {
  return kScratch.rows_copy(tensor(op, 0)) + weight_copy(tensor(op, 1));
}

int64_t rms_norm_backward(const Op& op) {
  const View& x = tensor(op, 1);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, norm_block_rows(count));
  return kScratch.rows_copy(tensor(op, 0)) + kScratch.rows_copy(x) + weight_copy(tensor(op, 2)) +
         kScratch.rounded(blocks * width * accumulator_bytes(x.dtype));
}

int64_t add_rms_norm(const Op& op) {
  return kScratch.rows_copy(tensor(op, 1)) + kScratch.rows_copy(tensor(op, 2)) + weight_copy(tensor(op, 3));
}

/// Returns the scratch of rms_norm_backward plus some rows of dx a thread.
int64_t rms_norm_backward_add(const Op& op, int threads) {
  const View& x = tensor(op, 3);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, norm_block_rows(count));
  return kScratch.rows_copy(tensor(op, 1)) + kScratch.rows_copy(tensor(op, 2)) + kScratch.rows_copy(x) +
         weight_copy(tensor(op, 4)) + kScratch.rounded(blocks * width * accumulator_bytes(x.dtype)) +
         kScratch.rounded(threads * rows_per_pass_of(count, width) * width * element_bytes(x.dtype));
}

int64_t rope(const Op& op) {
  const View& x = tensor(op, 0);
  if (elements(x.sizes) == 0) return 0;
  return (x.strides[3] == 1 ? 0 : kScratch.bytes_of(x)) + kScratch.rounded(x.sizes[3] / 2 * 8);
}

int64_t matrix_copy(const View& view) {
  return is_matrix(view) ? 0 : kScratch.bytes_of(view);
}

View matrix(DType dtype, int64_t rows, int64_t columns, int64_t stride = 0) {
  return {kNoBuffer, dtype, 0, {rows, columns}, {stride > 0 ? stride : columns, 1}};
}
View transposed(View matrix) {
  std::swap(matrix.sizes[0], matrix.sizes[1]);
  std::swap(matrix.strides[0], matrix.strides[1]);
  return matrix;
}

/// Returns the scratch of libtorch's matmuls that go through float32 blocks; nullopt if they are
/// libtorch's own.
std::optional<int64_t> matrix_product(const Op& op, size_t left) {
  const View &a = tensor(op, left), &b = tensor(op, left + 1);
  if (!float32_products(a.dtype) || b.dtype != a.dtype || elements(a.sizes) == 0 || elements(b.sizes) == 0)
    return std::nullopt;
  const size_t last = a.sizes.size() - 1;
  return kScratch.rounded(matmul_scratch(a.sizes[last - 1], a.sizes[last], b.sizes[last]));
}

/// Returns the different sizes of the pieces when `length` is cut into pieces of `piece`.
std::vector<int64_t> piece_sizes(int64_t length, int64_t piece) {
  std::vector<int64_t> sizes;
  if (length >= piece) sizes.push_back(piece);
  if (length % piece != 0) sizes.push_back(length % piece);
  return sizes;
}

/// The maximum scratch of matmuls that run one after the other.
class MaxMatmulScratch {
 public:
  explicit MaxMatmulScratch(const MatmulScratch& scratch) : scratch_(scratch) {}
  void add(View left, View right, View result, bool adds = false) {
    most_ = std::max(most_, scratch_({std::move(left), std::move(right), std::move(result), adds}));
  }
  int64_t bytes() const { return most_; }

 private:
  const MatmulScratch& scratch_;
  int64_t most_ = 0;
};

/// Returns the scratch of the matmuls that linear_cross_entropy_chunks() requests.
int64_t loss_products(const LossShape& shape, const LossChunks& chunks, const View& x, const View& weight,
                      const MatmulScratch& scratch) {
  MaxMatmulScratch most(scratch);
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

int64_t linear_cross_entropy(const Op& op, bool wants_x, bool wants_weight, int threads, const MatmulScratch& scratch) {
  const View &x = tensor(op, 0), &weight = tensor(op, 1);
  const LossShape shape{x.sizes[0], weight.sizes[0], x.sizes[1], x.dtype, wants_x, wants_weight};
  if (loss_in_blocks(shape))
    return matrix_copy(x) + matrix_copy(weight) + kScratch.rounded(shape.tokens * 4) +
           kScratch.rounded(loss_blocks(shape, threads).total);
  const int64_t tokens = x.sizes[0], vocabulary = weight.sizes[0], width = x.sizes[1], bytes = element_bytes(x.dtype);
  const LossChunks chunks = loss_chunks(tokens, vocabulary, bytes, kLossChunkBytes);
  int64_t total = matrix_copy(x) + matrix_copy(weight) + kScratch.rounded(tokens * accumulator_bytes(x.dtype)) +
                  kScratch.rounded(chunks.rows * vocabulary * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 1)
    total += kScratch.rounded(std::min(kLossGradientBlock, vocabulary) * width * bytes);
  if (wants_weight && bytes == 2 && chunks.count > 2) total += kScratch.bytes_of(weight);
  return total + loss_products(shape, chunks, x, weight, scratch);
}

/// Returns the bytes of a dequantised piece of the weight, and of the matmuls with it.
int64_t quantized_linear(const Op& op, const MatmulScratch& scratch) {
  const View &x = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = x.sizes.back(), bytes = element_bytes(x.dtype);
  if (elements(x.sizes) == 0 || rows == 0) return 0;
  const int64_t tile = quantized_tile_rows(rows, width, bytes);
  MaxMatmulScratch most(scratch);
  for (const int64_t tokens : piece_sizes(elements(x.sizes) / width, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(rows, tile))
      most.add(matrix(x.dtype, tokens, width), transposed(matrix(x.dtype, columns, width)),
               matrix(x.dtype, tokens, columns, rows));
  return kScratch.contiguous_copy(x) + kScratch.rounded(tile * width * bytes) + most.bytes();
}

int64_t quantized_linear_backward(const Op& op, const MatmulScratch& scratch) {
  const View &grad = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = op.results.at(0).sizes.back(), bytes = element_bytes(grad.dtype);
  if (elements(grad.sizes) == 0 || width == 0) return 0;
  const int64_t tile = std::min(width, quantized_tile_columns(rows, width, bytes));
  MaxMatmulScratch most(scratch);
  for (const int64_t tokens : piece_sizes(elements(grad.sizes) / rows, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(width, tile))
      most.add(matrix(grad.dtype, tokens, rows), matrix(grad.dtype, rows, columns),
               matrix(grad.dtype, tokens, columns, width));
  return kScratch.contiguous_copy(grad) + kScratch.rounded(rows * tile * bytes) + most.bytes();
}

/// Returns the bytes of the copies of attention: operands whose last dimension is not contiguous.
int64_t attention_copies(const Op& op, std::initializer_list<size_t> operands) {
  int64_t total = 0;
  for (const size_t i : operands)
    if (tensor(op, i).strides[3] != 1) total += kScratch.bytes_of(tensor(op, i));
  return total;
}

int64_t attention(const Op& op, int threads) {
  const AttentionShape shape = recorded_attention(op, 0, 3);
  return attention_copies(op, {0, 1, 2}) +
         attention_forward_scratch(shape, element_bytes(tensor(op, 0).dtype), threads);
}

int64_t attention_backward(const Op& op, int threads) {
  const AttentionShape shape = recorded_attention(op, 1, 6);
  return attention_copies(op, {0, 1, 2, 3, 4}) +
         attention_backward_scratch(shape, element_bytes(tensor(op, 1).dtype), threads);
}

int64_t adafactor(const Op& op) {
  const View& parameter = tensor(op, 0);
  const int64_t count = elements(parameter.sizes), parts = adafactor_parts(count);
  if (count == 0) return kScratch.gradient_copy(op);
  const MatrixShape shape = matrix_shape(parameter.sizes, parameter.strides);
  return kScratch.gradient_copy(op) + kScratch.rounded(parts * shape.columns * 4) +
         kScratch.rounded((shape.rows + parts) * 8);
}

/// Returns the bytes of copies, and of scratch for each thread; the operands begin at `x_at`.
int64_t ssd_scan(const Op& op, size_t x_at, bool backward, int threads) {
  const View &x = tensor(op, x_at), &b = tensor(op, x_at + 3);
  // The states, a result, determine the number of chunks; the length of a chunk is a constant of the call.
  check(op.results.size() == (backward ? 7 : 2), op.name + " has its states as the last result");
  const int64_t time = x.sizes[1], given = integer(op, x_at + 6);
  const int64_t chunk = given > 0 ? given : div_up(time, op.results.back().sizes[3]);
  const SsdShape shape{x.sizes[0], time, x.sizes[2], x.sizes[3], b.sizes[2], b.sizes[3], chunk, false};
  const int64_t wide = accumulator_bytes(x.dtype);
  int64_t total =
      kScratch.inner_contiguous_copy(x) + kScratch.inner_contiguous_copy(b) +
      kScratch.inner_contiguous_copy(tensor(op, x_at + 4)) + kScratch.contiguous_copy(tensor(op, x_at + 2)) +
      kScratch.contiguous_copy(tensor(op, x_at + 5)) +
      kScratch.rounded(threads * (backward ? ssd_backward_scratch(shape) : ssd_forward_scratch(shape)) * wide);
  if (backward)
    total += kScratch.inner_contiguous_copy(tensor(op, 0)) + kScratch.rounded(ssd_partial_sums(shape) * wide);
  return total;
}

int64_t causal_conv1d(const Op& op, size_t x_at, bool backward) {
  const View& x = tensor(op, x_at);
  const int64_t taps = (kConvTaps + 1) * x.sizes[2] * accumulator_bytes(x.dtype);
  int64_t total = kScratch.inner_contiguous_copy(x) + kScratch.rounded(taps);
  if (backward)
    total += kScratch.inner_contiguous_copy(tensor(op, 0)) +
             kScratch.rounded(x.sizes[0] * div_up(x.sizes[1], conv_block(x.sizes[1])) * taps);
  return total;
}

}  // namespace

std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads, const MatmulScratch& scratch) {
  const std::string_view name = single_name(std::string_view(op.name).substr(0, op.name.find('.')));
  if (is_one_of(name, {"aten::mm", "aten::bmm"})) return matrix_product(op, 0);
  if (is_one_of(name, {"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"})) return matrix_product(op, 1);
  if (is_one_of(name, {"plimsoll::adamw_", "plimsoll::lion_", "plimsoll::sgd_", "plimsoll::momentum_sgd_",
                       "plimsoll::accumulate_"}))
    return kScratch.gradient_copy(op);
  if (name == "plimsoll::adafactor_") return adafactor(op);
  if (name == "plimsoll::nesterov_momentum_") {
    const View& gradient = tensor(op, 0);
    return is_contiguous(gradient.sizes, gradient.strides) ? 0 : kScratch.bytes_of(gradient);
  }
  if (is_one_of(name, {"plimsoll::block_norm", "plimsoll::unpacked"})) return 0;
  if (op.name == "plimsoll::attention") return attention(op, threads);
  if (op.name == "plimsoll::attention_backward") return attention_backward(op, threads);
  if (op.name == "plimsoll::linear_cross_entropy") {
    // A gradient that is not requested is an empty result.
    check(op.results.size() == 4, "plimsoll::linear_cross_entropy has four results");
    return linear_cross_entropy(op, elements(op.results[2].sizes) > 0, elements(op.results[3].sizes) > 0, threads,
                                scratch);
  }
  if (op.name == "plimsoll::linear_cross_entropy_loss") return linear_cross_entropy(op, false, false, threads, scratch);
  if (op.name == "plimsoll::rms_norm") return rms_norm(op);
  if (op.name == "plimsoll::rms_norm_backward") return rms_norm_backward(op);
  if (is_one_of(op.name, {"plimsoll::add_rms_norm", "fused: add, rms_norm"})) return add_rms_norm(op);
  if (is_one_of(op.name, {"plimsoll::rms_norm_backward_add", "fused: rms_norm_backward, add"}))
    return rms_norm_backward_add(op, threads);
  if (op.name == "plimsoll::rope") return rope(op);
  if (op.name == "plimsoll::quantized_linear") return quantized_linear(op, scratch);
  if (op.name == "plimsoll::quantized_linear_backward") return quantized_linear_backward(op, scratch);
  if (op.name == "plimsoll::quantize_weight") return kScratch.rows_copy(tensor(op, 0));
  if (op.name == "plimsoll::quantize_scales" || op.name == "plimsoll::dequantize_weight") return 0;
  if (op.name == "plimsoll::ssd_scan") return ssd_scan(op, 0, /*backward=*/false, threads);
  if (op.name == "plimsoll::ssd_scan_backward") return ssd_scan(op, 1, /*backward=*/true, threads);
  if (op.name == "plimsoll::causal_conv1d") return causal_conv1d(op, 0, /*backward=*/false);
  if (op.name == "plimsoll::causal_conv1d_backward") return causal_conv1d(op, 1, /*backward=*/true);
  if (op.name == "plimsoll::swiglu" || op.name == "plimsoll::geglu") return kScratch.rows_copy(tensor(op, 0));
  if (op.name == "plimsoll::swiglu_backward" || op.name == "plimsoll::geglu_backward")
    return kScratch.rows_copy(tensor(op, 0)) + kScratch.rows_copy(tensor(op, 1));
  return std::nullopt;
}

}  // namespace plimsoll::ops
