// Which kernel attention takes on a CUDA device and how its work is cut: for the kernel and for the rule of its
// scratch. No libtorch, no CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/attention_plan.h"
#include "ops/rows.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// libtorch's flash kernels take 16-bit types and heads whose width is a multiple of 8, up to 256. Every other
/// attention is computed in blocks of queries, whose scores are held.
bool flash_takes(const AttentionShape& shape, DType dtype);

/// Whether [batch, tokens, heads, width] of these strides, beginning at `offset` elements, can be read by a flash
/// kernel as it is, and makes libtorch lay out a gradient like it in that order of dimensions.
bool flash_reads(Dims sizes, Dims strides, int64_t offset);

/// The most bytes that the forward and the backward flash kernel take beside their results, operands not counted, each
/// request rounded up to `alignment`. `multiprocessors`: of the device; 0: it is not known, the most of any.
///
/// Forward (flash_api.cpp, num_splits_heuristic): where heads and blocks of queries are too few for the device, keys
/// are split, and the parts' results are held in float32. Backward, deterministic: one float32 sum of the queries'
/// gradient for each of ceil(multiprocessors / (batch heads)) shares; with grouped heads a key and value gradient a
/// query head.
int64_t flash_forward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment);
int64_t flash_backward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment);

/// Attention in blocks: so many key heads of a sequence at a time, with all query heads of each, and blocks of queries
/// with the keys that they see.
struct ScoreBlocks {
  int64_t kv_heads;
  std::vector<QueryBlock> blocks;
  int64_t rows;       ///< queries of the largest block
  int64_t most_keys;  ///< of one block
};
/// The scores of one call take 64 MiB in float32 at the most, unless those of 16 queries take more.
ScoreBlocks score_blocks(const AttentionShape& shape);

}  // namespace plimsoll::ops
