#include "ops/attention/attention_plan.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/bytes.h"

namespace plimsoll::ops {

std::vector<QueryBlock> query_blocks(const AttentionShape& shape, int64_t rows) {
  std::vector<QueryBlock> blocks;
  for (int64_t begin = 0; begin < shape.queries; begin += rows) {
    const int64_t count = std::min(rows, shape.queries - begin);
    const int64_t first = shape.window > 0 ? std::max<int64_t>(0, begin - shape.window + 1) : 0;
    blocks.push_back({begin, count, first, (shape.causal ? begin + count : shape.keys) - first});
  }
  return blocks;
}

int64_t max_keys(const std::vector<QueryBlock>& blocks) {
  return std::ranges::max_element(blocks, {}, &QueryBlock::keys)->keys;
}

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
  tiles.bias = places.take(shape.masked ? keys * lanes * number : 0);
  tiles.result = places.take(shape.width * lanes * number);
  tiles.numbers = places.take((shape.masked ? 3 : 2) * lanes * number);
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
  tiles.bias = places.take(shape.masked ? keys * lanes * number : 0);
  tiles.pairs = places.take(element_bytes == 2 ? div_up(keys, 2) * lanes * 4 : 0);
  tiles.query_gradient = places.take(transposed);
  tiles.numbers = places.take((shape.masked ? 3 : 2) * lanes * number);
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

namespace {

constexpr int kMaxMultiprocessors = 192;  // more than any GPU from sm_80 to sm_120 has (RTX PRO 6000: 188)

int64_t rounded(int64_t bytes, int64_t alignment) {
  return div_up(bytes, alignment) * alignment;
}

/// Returns the width to which the kernels round up a head's width.
int64_t rounded_width(int64_t width) {
  return rounded(width, width <= 128 ? 32 : 64);
}

/// Returns the first number of splits whose efficiency is at least 0.85 of the best. Efficiency is the busy share of a
/// wave of blocks.
int64_t splits_of(int64_t blocks, int64_t slots, int64_t key_blocks) {
  if (static_cast<double>(blocks) >= 0.8 * static_cast<double>(slots)) return 1;
  const int64_t most = std::min({int64_t{128}, slots, key_blocks});
  const auto efficiency = [&](int64_t splits) {
    if (splits > 1 && div_up(key_blocks, splits) == div_up(key_blocks, splits - 1)) return 0.0;  // the same division
    const double waves = static_cast<double>(blocks * splits) / static_cast<double>(slots);
    return waves / std::ceil(waves);
  };
  double best = 0;
  for (int64_t splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  for (int64_t splits = 1; splits <= most; ++splits)
    // libtorch computes these in float32: an efficiency slightly below 0.85 of the best may count there.
    if (const double is = efficiency(splits); is > 0 && is >= 0.85 * best) return splits;
  return 1;
}

}  // namespace

bool flash_takes(const AttentionShape& shape, DType dtype) {
  return element_bytes(dtype) == 2 && !shape.capped && !shape.masked && !shape.dropped && shape.width % 8 == 0 &&
         shape.width <= 256;
}

bool flash_reads(Dims sizes, Dims strides, int64_t offset) {
  if (strides[3] != 1 || offset % 8 != 0) return false;  // the kernel reads 16 bytes at a time
  int64_t inner = sizes[3];
  for (const size_t d : {2, 1, 0}) {
    if (sizes[d] == 1) continue;
    if (strides[d] % 8 != 0 || strides[d] < inner) return false;
    inner = strides[d] * sizes[d];
  }
  return true;
}

int64_t flash_forward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment) {
  // The state of a random generator that is not used, and one more unused number.
  const int64_t always = 2 * rounded(16, alignment);
  const int64_t key_block = shape.width <= 64 ? 256 : shape.width <= 128 ? 128 : 64;
  const int64_t blocks = shape.batch * shape.query_heads * div_up(shape.queries, 64);
  const int64_t key_blocks = div_up(shape.keys, key_block);
  int64_t splits = 1;
  const int least = multiprocessors > 0 ? multiprocessors : 16;
  const int most = multiprocessors > 0 ? multiprocessors : kMaxMultiprocessors;
  for (int count = least; count <= most; ++count) splits = std::max(splits, splits_of(blocks, 2 * count, key_blocks));
  if (splits == 1) return always;
  const int64_t rows = splits * shape.batch * shape.query_heads * shape.queries;
  return always + rounded(rows * 4, alignment) + rounded(rows * rounded_width(shape.width) * 4, alignment);
}

int64_t flash_backward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment) {
  const int64_t units = shape.batch * shape.query_heads, queries = rounded(shape.queries, 128);
  const int64_t shares = div_up(multiprocessors > 0 ? multiprocessors : kMaxMultiprocessors, units);
  int64_t total = rounded(units * queries * 4, alignment) +
                  rounded(shares * units * queries * rounded_width(shape.width) * 4, alignment);
  if (shape.group() > 1) total += 2 * rounded(units * shape.keys * shape.width * 2, alignment);
  return total;
}

ScoreBlocks score_blocks(const AttentionShape& shape) {
  constexpr int64_t kMaxNumbers = 64 * MiB / 4;
  ScoreBlocks cut{};
  for (cut.rows = std::min<int64_t>(256, shape.queries);; cut.rows = div_up(cut.rows, 2)) {
    cut.blocks = query_blocks(shape, cut.rows);
    cut.max_keys = max_keys(cut.blocks);
    const int64_t one_head = shape.group() * cut.rows * cut.max_keys;
    cut.kv_heads = std::clamp<int64_t>(kMaxNumbers / one_head, 1, shape.kv_heads);
    if (one_head <= kMaxNumbers || cut.rows <= 16) return cut;
  }
}

}  // namespace plimsoll::ops
