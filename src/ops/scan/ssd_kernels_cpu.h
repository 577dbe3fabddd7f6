// The arithmetic of the state-space scan on raw memory: no tensors, no allocation, no threads. The operator cuts the
// work into heads and chunks and calls these from at::parallel_for.
//
// With a_t = dt_t A, the sum s_i of a over a chunk's positions up to i, H the state [state, width] that enters a chunk
// and H' the one that leaves it (Dao and Gu 2024, section 6):
//
//     y_i = sum_{j <= i} exp(s_i - s_j) dt_j (C_i . B_j) x_j  +  exp(s_i) C_i H  +  D x_i
//     H'  = exp(s_last) H  +  sum_j exp(s_last - s_j) dt_j B_j^T x_j
//
// States are passed from chunk to chunk first, for every head; then all chunks are independent of each other.
#pragma once

#include "ops/scan/ssd_scan_chunks.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// [batch, time, heads or groups, n] whose last elements lie side by side; strides in elements.
struct SsdTensor {
  const void* data = nullptr;
  int64_t batch_stride = 0, time_stride = 0, head_stride = 0;
};

/// x, B, C and the gradient of y are of `dtype`. "Accumulator" below: float64 for float64, float32 for every other.
struct SsdOperands {
  SsdShape shape{};
  DType dtype = DType::float32;
  SsdTensor x, b, c;
  SsdTensor dt;             ///< accumulator [batch, time, heads]
  const void* a = nullptr;  ///< accumulator [heads]
  const void* d = nullptr;  ///< accumulator [heads]
};

/// states [batch, heads, chunks, state, width], accumulator: what enters each chunk; for `begin` to `end` of the batch
/// x heads.
void ssd_states(const SsdOperands& in, void* states, void* scratch, int64_t begin, int64_t end);

/// y [batch, time, heads, width], contiguous; for `begin` to `end` of the batch x chunks x groups.
void ssd_outputs(const SsdOperands& in, const void* states, void* y, void* scratch, int64_t begin, int64_t end);

/// The gradient of what leaves each chunk, laid out as `states`; for `begin` to `end` of the batch x heads.
void ssd_state_gradients(const SsdOperands& in, const SsdTensor& grad_y, void* state_gradients, void* scratch,
                         int64_t begin, int64_t end);

/// Where the gradients go: contiguous, x, B and C of the operands' dtype, the others accumulators.
struct SsdGradients {
  void* x = nullptr;
  void* dt = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  void* a_parts = nullptr;  ///< [batch, chunks, heads]: what is to be summed
  void* d_parts = nullptr;
};
/// For `begin` to `end` of the batch x chunks x groups.
void ssd_gradients(const SsdOperands& in, const SsdTensor& grad_y, const void* states, const void* state_gradients,
                   const SsdGradients& out, void* scratch, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
