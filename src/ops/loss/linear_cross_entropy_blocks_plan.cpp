#include "ops/loss/linear_cross_entropy_blocks_plan.h"

#include <algorithm>

namespace plimsoll::ops {
namespace {

/// An allocator that returns consecutive offsets in bytes.
struct Places {
  int64_t next = 0;
  int64_t take(bool wanted, int64_t bytes) {
    const int64_t place = next;
    if (wanted) next += div_up(bytes, 64) * 64;
    return place;
  }
};

}  // namespace

LossBlocks loss_blocks(const LossShape& shape, int threads) {
  const bool pairs = shape.dtype == DType::bfloat16, wants_any = shape.wants_x || shape.wants_weight;
  const int64_t bytes = element_bytes(shape.dtype);
  LossBlocks blocks{};
  blocks.chunks = loss_chunks(shape.tokens, shape.vocabulary, bytes, kLossChunkBytes);
  const int64_t rows = blocks.chunks.rows, halved = pairs ? 2 : 1;
  const int64_t lanes = loss_lanes(rows), columns = blocks.columns = loss_lanes(shape.width);
  blocks.stretches = div_up(shape.vocabulary, kLossStretch);
  // Two blocks a thread even out their different durations. Panels for eight threads or fewer have one size.
  blocks.panel = std::min(div_up(shape.vocabulary, kLossBlock), std::max<int64_t>(16, 2 * threads)) * kLossBlock;
  // A matmul walks down a column of gradients (float32 or pairs). An odd number of cache lines from a row to the next
  // lets the rows use all sets of the first-level cache; a power of two would leave them a few.
  blocks.stride = (lanes / kLossLanes | 1) * kLossLanes;
  Places places;
  blocks.logits = places.take(wants_any, shape.vocabulary * lanes * bytes);
  blocks.maximum = places.take(true, blocks.stretches * lanes * 4);
  blocks.sums = places.take(true, blocks.stretches * lanes * 4);
  blocks.numbers = places.take(true, 3 * lanes * 4);
  blocks.transposed = places.take(true, shape.width / halved * lanes * 4);
  blocks.rows = places.take(shape.wants_weight, div_up(rows, halved) * columns * 4);
  blocks.gradients = places.take(shape.wants_weight || (shape.wants_x && !pairs), blocks.panel * blocks.stride * bytes);
  blocks.pairs = places.take(pairs && shape.wants_x, blocks.panel / 2 * blocks.stride * 4);
  blocks.grad_x = places.take(shape.wants_x, rows * columns * 4);
  blocks.low =
      places.take(pairs && shape.wants_weight && blocks.chunks.count > 2, shape.vocabulary * shape.width * bytes);
  blocks.total = places.next;
  return blocks;
}

}  // namespace plimsoll::ops
