// One step of a fused op on one block of floats.
#pragma once

#include <cstdint>

#include "trace/pointwise.h"

namespace plimsoll::ops {

struct FusedBlockStep {
  Opcode opcode = Opcode::cast;
  DType dtype = DType::float32;  ///< the results are rounded to it
  float* to = nullptr;
  const float* from[kMostOperands] = {};
};

/// The step on `count` elements. Reads and writes nothing behind them.
void fused_block_step(const FusedBlockStep& step, int64_t count);

/// `count` neighbours of any type that an input may have, as floats, and floats as one of the three that results have.
void fused_block_load(float* to, const void* from, DType dtype, int64_t count);
void fused_block_store(void* to, const float* from, DType dtype, int64_t count);

}  // namespace plimsoll::ops
