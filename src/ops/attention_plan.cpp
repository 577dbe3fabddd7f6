#include "ops/attention_plan.h"

#include <algorithm>

#include "ops/rows.h"

namespace plimsoll::ops {

namespace {

/// Ranges of at most `key_heads` key heads, along the longer of the two dimensions.
std::vector<HeadRange> cut(const AttentionShape& shape, int64_t key_heads) {
  std::vector<HeadRange> ranges;
  if (shape.kv_heads > shape.batch) {
    for (int64_t b = 0; b < shape.batch; ++b)
      for (int64_t h = 0; h < shape.kv_heads; h += key_heads)
        ranges.push_back({b, 1, h, std::min(key_heads, shape.kv_heads - h)});
  } else {
    for (int64_t h = 0; h < shape.kv_heads; ++h)
      for (int64_t b = 0; b < shape.batch; b += key_heads)
        ranges.push_back({b, std::min(key_heads, shape.batch - b), h, 1});
  }
  return ranges;
}

}  // namespace

std::vector<HeadRange> forward_heads(const AttentionShape& shape) {
  if (shape.group() == 1) return {{0, shape.batch, 0, shape.kv_heads}};
  return cut(shape, std::max<int64_t>(1, std::max(shape.batch, shape.kv_heads)));
}

std::vector<HeadRange> backward_heads(const AttentionShape& shape, int threads) {
  if (shape.group() == 1) return {{0, shape.batch, 0, shape.kv_heads}};
  return cut(shape, div_up(4 * threads, shape.group()));  // four query heads a thread
}

bool needs_window_mask(const AttentionShape& shape) {
  return shape.window > 0 && shape.window < shape.queries;
}

int64_t window_mask_rows(const AttentionShape& shape) {
  // Long blocks read few keys twice, short ones mask few scores out: half a window, in whole kernel tiles of 64
  // queries.
  return std::min(shape.queries, std::clamp<int64_t>(div_up(shape.window / 2, 64) * 64, 64, 256));
}

std::vector<QueryBlock> query_blocks(const AttentionShape& shape) {
  if (!needs_window_mask(shape)) return {{0, shape.queries, 0, shape.keys}};
  std::vector<QueryBlock> blocks;
  const int64_t size = window_mask_rows(shape);
  for (int64_t begin = 0; begin < shape.queries; begin += size) {
    const int64_t count = std::min(size, shape.queries - begin);
    const int64_t first_key = std::max<int64_t>(0, begin - shape.window + 1);
    blocks.push_back({begin, count, first_key, begin + count - first_key});
  }
  return blocks;
}

std::vector<QueryBlock> capped_blocks(const AttentionShape& shape, int64_t rows) {
  std::vector<QueryBlock> blocks;
  for (int64_t begin = 0; begin < shape.queries; begin += rows) {
    const int64_t count = std::min(rows, shape.queries - begin);
    const int64_t first = shape.window > 0 ? std::max<int64_t>(0, begin - shape.window + 1) : 0;
    blocks.push_back({begin, count, first, (shape.causal ? begin + count : shape.keys) - first});
  }
  return blocks;
}

int64_t most_keys(const std::vector<QueryBlock>& blocks) {
  return std::ranges::max_element(blocks, {}, &QueryBlock::keys)->keys;
}

}  // namespace plimsoll::ops
