// Declares one task of attention on the CPU: the work of a thread between the blocks' kernels and matmuls. No tensors.
#pragma once

#include "ops/attention/attention_plan.h"
#include "ops/attention/attention_softmax_cpu.h"
#include "ops/attention_rows_cpu.h"

namespace plimsoll::ops {

/// A tensor [batch, heads, tokens, width] whose last dimension is contiguous; strides in elements.
struct HeadTensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  int64_t batch_stride = 0, head_stride = 0, token_stride = 0;
};

/// A mask [batch, heads, queries, keys]; strides in elements. `data` is null if there is none.
struct MaskTensor {
  const void* data = nullptr;
  DType dtype = DType::float32;
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;
};

struct AttentionWork {
  AttentionShape shape;
  DType dtype;
  double scale, cap;
  bool pairs;  ///< matmuls of bfloat16 pairs
  HeadTensor q, k, v, out;
  HeadTensor logsumexp;             ///< wide [batch, heads, tokens]; with a mask [batch, heads, tokens, 2]
  HeadTensor grad_out, dq, dk, dv;  ///< backward only
  MaskTensor mask;
  double dropout = 0;  ///< probability to drop a probability
  uint64_t seed = 0;
};

/// Runs task `index` of forward_tasks(): a block of queries of a head.
void attention_forward_task(const AttentionWork& work, const ForwardTiles& tiles, int64_t index, char* scratch);

/// Runs task `index` of cut.key_tasks: the gradients of keys and values of a chunk. With cut.together it also computes
/// the gradients of all queries of the group.
void attention_keys_task(const AttentionWork& work, const BackwardCut& cut, const BackwardTiles& tiles, int64_t index,
                         char* scratch);
/// Runs task `index` of cut.query_tasks: the gradient of a block of queries of a head.
void attention_queries_task(const AttentionWork& work, const BackwardTiles& tiles, int64_t index, char* scratch);

}  // namespace plimsoll::ops
