#include "ops/attention/attention_plan.h"

#include <algorithm>

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

}  // namespace plimsoll::ops
