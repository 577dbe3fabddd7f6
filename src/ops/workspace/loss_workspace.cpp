// Computes the scratch of the loss head.
#include "ops/loss/linear_cross_entropy_blocks_plan.h"
#include "ops/loss/loss_kernel.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
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
  if (shape.wants_weight && bytes == 2 && chunks.count > 1)
    total += on.rounded(std::min(kLossGradientBlock, shape.vocabulary) * shape.width * bytes);
  if (shape.wants_weight && bytes == 2 && chunks.count > 2) total += on.bytes_of(weight);
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

int64_t loss_on_cuda(const Op& op, const LossShape& shape, const ScratchDevice& on) {
  const int64_t most = cuda_loss_chunk_bytes(shape.vocabulary);
  return loss_in_chunks(shape, loss_chunks(shape.tokens, shape.vocabulary, element_bytes(shape.dtype), most), op, on);
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

}  // namespace plimsoll::ops
