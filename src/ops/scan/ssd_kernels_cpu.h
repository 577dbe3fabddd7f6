// Declares the arithmetic of the state-space scan on raw memory: no tensors, no allocation, no threads. The operator
// cuts the work into heads and chunks and calls these functions from at::parallel_for.
//
// The notation (Dao and Gu 2024, section 6): a_t = dt_t A. s_i is the sum of a over a chunk's positions up to i. H is
// the state [state, width] that enters a chunk, and H' the state that leaves it:
//
//     y_i = sum_{j <= i} exp(s_i - s_j) dt_j (C_i . B_j) x_j  +  exp(s_i) C_i H  +  D x_i
//     H'  = exp(s_last) H  +  sum_j exp(s_last - s_j) dt_j B_j^T x_j
//
// States are passed from chunk to chunk first, for every head; then all chunks are independent of each other.
#pragma once

#include "ops/scan/ssd_scan_chunks.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// A tensor [batch, time, heads or groups, n] whose last dimension is contiguous; strides in elements.
struct SsdTensor {
  const void* data = nullptr;
  int64_t batch_stride = 0, time_stride = 0, head_stride = 0;
};

/// The operands of the scan. x, B, C and the gradient of y are of `dtype`. "Accumulator" below: float64 for float64,
/// float32 for every other type.
struct SsdOperands {
  SsdShape shape{};
  DType dtype = DType::float32;
  SsdTensor x, b, c;
  SsdTensor dt;             ///< accumulator [batch, time, heads]
  const void* a = nullptr;  ///< accumulator [heads]
  const void* d = nullptr;  ///< accumulator [heads]
};

/// Computes states [batch, heads, chunks, state, width], accumulator: the state that enters each chunk, for `begin` to
/// `end` of the batch x heads.
void ssd_states(const SsdOperands& in, void* states, void* scratch, int64_t begin, int64_t end);

/// Computes y [batch, time, heads, width], contiguous, for `begin` to `end` of the batch x chunks x groups.
void ssd_outputs(const SsdOperands& in, const void* states, void* y, void* scratch, int64_t begin, int64_t end);

/// Computes the gradient of the state that leaves each chunk, in the layout of `states`, for `begin` to `end` of the
/// batch x heads.
void ssd_state_gradients(const SsdOperands& in, const SsdTensor& grad_y, void* state_gradients, void* scratch,
                         int64_t begin, int64_t end);

/// The results of the backward pass, contiguous: x, B and C of the operands' dtype, the others accumulators.
struct SsdGradients {
  void* x = nullptr;
  void* dt = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  void* a_parts = nullptr;  ///< [batch, chunks, heads]: partial sums of the gradient of A
  void* d_parts = nullptr;
};
/// Computes the gradients for `begin` to `end` of the batch x chunks x groups.
void ssd_gradients(const SsdOperands& in, const SsdTensor& grad_y, const void* states, const void* state_gradients,
                   const SsdGradients& out, void* scratch, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
