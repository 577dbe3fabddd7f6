// Steps of fused ops that are computed by series: exponentials and what is made of them. They are libtorch's vector
// functions, compiled for the instruction sets that libtorch is compiled for, and picked as it picks.
//
// libtorch goes through a piece by twice as many elements as a vector has, and through what is left one by one with the
// C library's functions, which round otherwise here and there. So does a fused op, for the same elements.
#pragma once

#include <cstdint>

#include "ops/fused/fused_block.h"

namespace plimsoll::ops {

/// As fused_block_step(), for opcodes with is_series(). The block begins at element `begin` of a piece of `piece`
/// elements. False: not an opcode that the CPU has.
bool fused_series_step(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);

namespace series {
bool step_default(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx2(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx512(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
}  // namespace series

}  // namespace plimsoll::ops
