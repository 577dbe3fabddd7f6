// Block-level activation checkpointing: what a block of the model saved for its backward is dropped after forward and
// rebuilt, by the same ops from the block's inputs, just before the block's backward first needs it.
//
//     forward    block 0 | block 1 | block 2 | loss         kept: each block's inputs and outputs
//     backward                    [block 2 again] block 2' | [block 1 again] block 1' | [block 0 again] block 0'
//
// Runs after remove_dead_ops, which would otherwise have to be told that the clones of dead ops are dead too; and
// before anything that depends on lifetimes, which it changes. Ops that draw random numbers keep their id and so draw
// the same numbers again. An op that cannot run twice (it updates running statistics in place, or what it read has
// changed since) is left alone, and what it made is kept.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll {

/// How many times a block runs forward in segment "micro": the greatest `blocks` that makes a difference. A block is
/// the part of the model below the first number in the module path ("layers.3" in "layers.3.attention.query").
int64_t count_blocks(const Trace& trace);

/// The trace with the first `blocks` block runs of every training segment recomputed. Bit-equal results.
Trace recompute_blocks(Trace trace, int64_t blocks);

}  // namespace plimsoll
