// Declares how attention is cut into blocks, for its kernels and for estimates of their scratch. No libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::ops {

struct AttentionShape {
  int64_t batch, query_heads, kv_heads, queries, keys, width;
  bool causal;
  int64_t window;       ///< tokens; 0: none
  bool capped = false;  ///< scores are capped

  int64_t group() const { return query_heads / kv_heads; }
};

/// The queries [begin, begin + count) and the keys that they may see.
struct QueryBlock {
  int64_t begin, count, first_key, keys;
};

/// Returns blocks of `rows` queries whose scores are held, with the keys [first_key, first_key + keys) of each.
/// max_keys() returns the largest `keys` of a block.
std::vector<QueryBlock> query_blocks(const AttentionShape& shape, int64_t rows);
int64_t max_keys(const std::vector<QueryBlock>& blocks);

}  // namespace plimsoll::ops
