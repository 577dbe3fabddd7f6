#include "ops/attention/attention_cpu_plan.h"

namespace plimsoll::ops {
namespace {

int64_t wide(int64_t element_bytes) {
  return element_bytes == 8 ? 8 : 4;
}

/// Maximum elements of a thread's sums of key gradients, and of value gradients: 4 MiB each in float32. The bound keeps
/// the scratch of many threads on a long sequence small compared with the gradients.
constexpr int64_t kMaxGradientNumbers = int64_t{1} << 20;

/// An allocator that returns consecutive offsets in bytes.
struct Places {
  int64_t next = 0;
  int64_t take(int64_t bytes) {
    const int64_t place = next;
    next += div_up(bytes, 64) * 64;
    return place;
  }
};

}  // namespace

BackwardCut backward_cut(const AttentionShape& shape, int threads) {
  const int64_t units = shape.batch * shape.kv_heads;
  BackwardCut cut{.together = true, .key_chunk = shape.keys, .chunks = 1, .key_tasks = units, .query_tasks = 0};
  // Compares the busiest thread's share relative to the mean share with 7 matmuls relative to 5.
  const int64_t columns = attention_lanes(shape.width);
  const int64_t max_keys = std::max(kAttentionBlock, kMaxGradientNumbers / columns / kAttentionBlock * kAttentionBlock);
  if (shape.keys <= max_keys && 5 * div_up(units, threads) * threads <= 7 * units) return cut;
  cut.together = false;
  const int64_t wanted = div_up(4 * threads, units);  // four tasks a thread even out their different durations
  cut.key_chunk = std::min({shape.keys, max_keys, div_up(attention_blocks(shape.keys), wanted) * kAttentionBlock});
  cut.chunks = div_up(shape.keys, cut.key_chunk);
  cut.key_tasks = units * cut.chunks;
  cut.query_tasks = forward_tasks(shape);
  return cut;
}

ForwardTiles forward_tiles(const AttentionShape& shape, int64_t element_bytes) {
  const int64_t number = wide(element_bytes), columns = attention_lanes(shape.width);
  const int64_t keys = std::min(shape.keys, kAttentionBlock);
  const int64_t lanes = attention_lanes(std::min(shape.queries, kAttentionBlock));
  const int64_t copy = element_bytes == 2 ? keys * columns * number : 0;
  Places places;
  ForwardTiles tiles{};
  tiles.queries = places.take(shape.width * lanes * number);
  tiles.keys = places.take(copy);
  tiles.values = places.take(copy);
  tiles.scores = places.take(keys * lanes * number);
  tiles.result = places.take(shape.width * lanes * number);
  tiles.numbers = places.take(2 * lanes * number);
  tiles.total = places.next;
  return tiles;
}

BackwardTiles backward_tiles(const AttentionShape& shape, const BackwardCut& cut, int64_t element_bytes) {
  const int64_t number = wide(element_bytes), columns = attention_lanes(shape.width);
  const int64_t keys = std::min(shape.keys, kAttentionBlock);
  const int64_t lanes = attention_lanes(std::min(shape.queries, kAttentionBlock));
  const int64_t transposed = shape.width * lanes * number, rows = lanes * columns * number;
  const int64_t copy = element_bytes == 2 ? keys * columns * number : 0;
  Places places;
  BackwardTiles tiles{};
  tiles.queries = places.take(transposed);
  tiles.gradients = places.take(transposed);
  tiles.query_rows = places.take(rows);
  tiles.gradient_rows = places.take(rows);
  tiles.keys = places.take(copy);
  tiles.values = places.take(copy);
  tiles.scores = places.take(keys * lanes * number);
  tiles.score_gradients = places.take(keys * lanes * number);
  tiles.pairs = places.take(element_bytes == 2 ? div_up(keys, 2) * lanes * 4 : 0);
  tiles.query_gradient = places.take(transposed);
  tiles.numbers = places.take(2 * lanes * number);
  tiles.key_gradient = places.take(cut.key_chunk * columns * number);
  tiles.value_gradient = places.take(cut.key_chunk * columns * number);
  tiles.total = places.next;
  return tiles;
}

int64_t attention_forward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads) {
  return std::min<int64_t>(threads, forward_tasks(shape)) * forward_tiles(shape, element_bytes).total;
}

int64_t attention_backward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads) {
  const BackwardCut cut = backward_cut(shape, threads);
  return std::min<int64_t>(threads, cut.max_tasks()) * backward_tiles(shape, cut, element_bytes).total;
}

}  // namespace plimsoll::ops
