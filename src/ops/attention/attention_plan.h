// Declares how attention is cut into blocks, into tasks on the CPU and into kernels on a CUDA device. Kernels and
// estimates of their scratch use it; no libtorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/rows.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// The sizes of attention.
struct AttentionShape {
  int64_t batch, query_heads, kv_heads, queries, keys, width;
  bool causal;
  int64_t window;        ///< tokens; 0: none
  bool capped = false;   ///< scores are capped
  bool masked = false;   ///< scores have a mask that is a tensor
  bool dropped = false;  ///< probabilities are dropped

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

// The division of the CPU kernels' work among tasks, and the scratch of one thread.
//
// Blocks of 64 queries and blocks of 64 keys form one grid, wherever a task begins. The terms of each sum, and their
// order, therefore do not depend on the number of threads.

/// Tokens of a block. Its scores (16 KiB of float32) and their operands stay in a core's first two caches.
constexpr int64_t kAttentionBlock = 64;
/// The queries of a block are contiguous and padded to a multiple of this; so are the columns of a head's rows.
constexpr int64_t kAttentionLanes = 16;

inline int64_t attention_lanes(int64_t count) {
  return div_up(count, kAttentionLanes) * kAttentionLanes;
}
inline int64_t attention_blocks(int64_t tokens) {
  return div_up(tokens, kAttentionBlock);
}

/// Returns the number of tasks of the forward pass; each is a block of queries of one head.
inline int64_t forward_tasks(const AttentionShape& shape) {
  return shape.batch * shape.query_heads * attention_blocks(shape.queries);
}

/// Maps task `index` of `count` to the order 0, count - 1, 1, count - 2, … Any contiguous range then has about equal
/// work if the work grows with the index, as under a causal mask.
inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

/// A division of the backward pass. With `together`, a task is one key head of a sequence and computes all three
/// gradients. If that leaves threads idle, the gradients of keys and values come first; a task is a chunk of a key
/// head's keys. The gradients of queries follow; a task is a block of one head. The scores are then computed twice: 7
/// matmuls instead of 5.
struct BackwardCut {
  bool together;
  int64_t key_chunk;  ///< keys of a task; a multiple of the block, or all keys
  int64_t chunks;     ///< chunks of a key head
  int64_t key_tasks;
  int64_t query_tasks;  ///< 0 with `together`

  int64_t max_tasks() const { return std::max(key_tasks, query_tasks); }
};
BackwardCut backward_cut(const AttentionShape& shape, int threads);

/// The byte offsets of a thread's tiles, each a multiple of a cache line; `total` is the bytes per thread. They are the
/// same for matmuls of float32 and of bfloat16 pairs, whose tiles are no larger. The plan therefore does not depend on
/// the machine's matmuls. D is the width, D' the width up to a multiple of 16. "Wide": float64 for float64, else
/// float32.
struct ForwardTiles {
  int64_t queries;  ///< wide [D, queries], transposed
  int64_t keys;     ///< wide [keys, D'], for 16-bit elements
  int64_t values;   ///< wide [keys, D'], for 16-bit elements
  int64_t scores;   ///< wide [keys, queries]
  int64_t bias;     ///< wide [keys, queries], with a mask: what is added to scores
  int64_t result;   ///< wide [D, queries], transposed
  int64_t numbers;  ///< wide [2, queries]: the largest score, the sum of exponentials; with a mask [3, queries]
  int64_t total;
};
ForwardTiles forward_tiles(const AttentionShape& shape, int64_t element_bytes);

struct BackwardTiles {
  int64_t queries, gradients;            ///< wide [D, queries], transposed: q and the result's gradient
  int64_t query_rows, gradient_rows;     ///< wide [queries, D']: q and the result's gradient
  int64_t keys, values;                  ///< wide [keys, D'], for 16-bit elements
  int64_t scores, score_gradients;       ///< wide [keys, queries]
  int64_t bias;                          ///< wide [keys, queries], with a mask: what is added to scores
  int64_t pairs;                         ///< pairs [keys / 2, queries] of score gradients, for 16-bit elements
  int64_t query_gradient;                ///< wide [D, queries], transposed
  int64_t numbers;                       ///< wide [2, queries]: log of the sum; the term that a row's gradients share;
                                         ///< with a mask [3, queries]
  int64_t key_gradient, value_gradient;  ///< wide [keys of a task, D']
  int64_t total;
};
BackwardTiles backward_tiles(const AttentionShape& shape, const BackwardCut& cut, int64_t element_bytes);

/// Returns the bytes of scratch that the kernels allocate on `threads` threads.
int64_t attention_forward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads);
int64_t attention_backward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads);

/// Returns true if libtorch's flash kernels compute the attention: 16-bit types, no cap, no mask that is a tensor, and
/// heads whose width is a multiple of 8, at most 256. With dropout they do not: they would drop other elements than the
/// CPU, by bits of libtorch's generator. Every other attention is computed in blocks of queries whose scores are held.
bool flash_takes(const AttentionShape& shape, DType dtype);

/// Returns true if a flash kernel can read [batch, tokens, heads, width] of these strides in place. libtorch then also
/// lays out a gradient like it in that order of dimensions. `offset` is the first element.
bool flash_reads(Dims sizes, Dims strides, int64_t offset);

/// Return the maximum bytes that the forward and the backward flash kernel allocate in addition to operands and
/// results. Each request is rounded up to `alignment`. `multiprocessors`: of the device; 0: unknown, the maximum of all
/// devices.
///
/// Forward (flash_api.cpp, num_splits_heuristic): keys are split if heads and blocks of queries are too few for the
/// device. The results of the parts are held in float32. Backward, deterministic: it holds one float32 sum of the
/// queries' gradient for each of ceil(multiprocessors / (batch heads)) shares. With grouped heads it also holds a key
/// and value gradient a query head.
int64_t flash_forward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment);
int64_t flash_backward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment);

/// A division of attention into blocks. Each block has `kv_heads` key heads of a sequence, all query heads of each, and
/// a range of queries with the keys that they see.
struct ScoreBlocks {
  int64_t kv_heads;
  std::vector<QueryBlock> blocks;
  int64_t rows;      ///< queries of the largest block
  int64_t max_keys;  ///< maximum of one block
};
/// Returns blocks whose scores take at most 64 MiB in float32 per call, or more if the scores of 16 queries take more.
ScoreBlocks score_blocks(const AttentionShape& shape);

}  // namespace plimsoll::ops
