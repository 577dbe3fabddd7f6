// Declares which kernel attention uses on a CUDA device and how its work is cut, for the kernel and for the rule of its
// scratch. No libtorch, no CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/attention_plan.h"
#include "ops/rows.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Returns true if libtorch's flash kernels accept the attention: 16-bit types, no cap, and heads whose width is a
/// multiple of 8, at most 256. Every other attention is computed in blocks of queries whose scores are held.
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
