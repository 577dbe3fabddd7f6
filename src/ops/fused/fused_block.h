// Declares one step of a fused op on one block of floats.
#pragma once

#include <cstdint>

#include "trace/pointwise.h"

namespace plimsoll::ops {

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

}  // namespace plimsoll::ops
