// Declares one step of a fused op on one block of floats, and the steps that are computed by series: exponentials
// and functions of them.
//
// libtorch processes a piece in units of twice as many elements as a vector has. It computes the remaining elements one
// by one with the C library's functions, which sometimes round differently. A fused op does so too, for the same
// elements.
#pragma once

#include <cstdint>

#include "trace/merged_ops.h"

namespace plimsoll::ops {

/// One step of a fused op on one block of floats.
struct FusedBlockStep {
  Opcode opcode = Opcode::cast;
  DType dtype = DType::float32;  ///< the dtype that the results are rounded to
  float* to = nullptr;
  const float* from[kMaxOperands] = {};
};

/// Runs the step on `count` elements. Does not access elements behind them.
void fused_block_step(const FusedBlockStep& step, int64_t count);

/// Convert `count` contiguous elements: from any type that an input may have to floats, and from floats to one of the
/// three result types.
void fused_block_load(float* to, const void* from, DType dtype, int64_t count);
void fused_block_store(void* to, const float* from, DType dtype, int64_t count);

/// Runs a step as fused_block_step() does, for opcodes with is_series(). The block begins at element `begin` of a piece
/// of `piece` elements. Returns false if the CPU has no kernel for the opcode.
bool fused_series_step(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);

namespace series {
bool step_default(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx2(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx512(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
}  // namespace series

}  // namespace plimsoll::ops
