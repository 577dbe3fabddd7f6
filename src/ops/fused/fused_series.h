// Declares the steps of fused ops that are computed by series: exponentials and functions of them. They use libtorch's
// vector functions, compiled for the same instruction sets as libtorch's and chosen by the same rule.
//
// libtorch processes a piece in units of twice as many elements as a vector has. It computes the remaining elements one
// by one with the C library's functions, which sometimes round differently. A fused op does so too, for the same
// elements.
#pragma once

#include <cstdint>

#include "ops/fused/fused_block.h"

namespace plimsoll::ops {

/// Runs a step as fused_block_step() does, for opcodes with is_series(). The block begins at element `begin` of a piece
/// of `piece` elements. Returns false if the CPU has no kernel for the opcode.
bool fused_series_step(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);

namespace series {
bool step_default(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx2(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
bool step_avx512(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece);
}  // namespace series

}  // namespace plimsoll::ops
