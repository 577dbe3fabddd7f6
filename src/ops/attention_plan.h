// How attention is cut into calls of libtorch's CPU flash kernel. That kernel knows neither grouped queries nor
// windows, so:
//
// - Heads. One call takes `batches` x `kv_heads` key heads, one of the two being 1, and gives each its group of G query
//   heads with a stride of 0: nothing is copied. In backward the group's key and value gradients meet in a temporary of
//   the call's size, so a call is only as large as it takes to keep the threads busy.
// - Windows. Queries are taken in blocks; a block reads only the keys that it can see, [begin - window + 1, end), under
// one
//   mask that serves all blocks. No T x T mask is ever held.
//
// Shared by the kernel (attention_cpu.cpp) and the figures for its workspace (workspace_cpu.cpp). No libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::ops {

struct AttentionShape {
  int64_t batch, query_heads, kv_heads, queries, keys, width;
  bool causal;
  int64_t window;       ///< 0: none
  bool capped = false;  ///< by the kernel of capped_attention_cpu.h

  int64_t group() const { return query_heads / kv_heads; }
};

/// Key heads [kv_head, kv_head + kv_heads) of the sequences [batch, batch + batches).
struct HeadRange {
  int64_t batch, batches, kv_head, kv_heads;
};
std::vector<HeadRange> forward_heads(const AttentionShape& shape);
std::vector<HeadRange> backward_heads(const AttentionShape& shape, int threads);

/// Queries [begin, begin + count) and the keys that they may see.
struct QueryBlock {
  int64_t begin, count, first_key, keys;
};
/// One block of everything, unless the window is shorter than the sequence.
std::vector<QueryBlock> query_blocks(const AttentionShape& shape);

/// True where the blocks want a mask; its size is [window_mask_rows, window_mask_rows + window - 1].
bool needs_window_mask(const AttentionShape& shape);
int64_t window_mask_rows(const AttentionShape& shape);

/// Blocks of `rows` queries whose scores are held, [first_key, first_key + keys) of each, and the most keys of one.
/// 128: products large enough for a CPU's matrix kernel, scores that stay in a cache.
std::vector<QueryBlock> capped_blocks(const AttentionShape& shape, int64_t rows = 128);
int64_t most_keys(const std::vector<QueryBlock>& blocks);

}  // namespace plimsoll::ops
