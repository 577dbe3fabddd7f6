// Declares other forms of recorded ops for CUDA that the planner may choose: loss heads that work on more tokens at a
// time, and matmuls that add to a sum.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the forms of a loss head for memory that remains (ops/loss/linear_cross_entropy_chunks.h), the best first:
/// those with fewer and larger chunks than the op, then the one with large blocks of the weight gradient. Empty for
/// other ops.
std::vector<Op> larger_chunks_cuda(const Op& op);

/// Returns the matmul that adds to `sum`, as ProductSum (plimsoll/planner.h) describes. Both 16-bit sums and float32
/// sums of 16-bit matmuls are possible. nullopt: it is no mm whose result is added in place, or copied to float32.
std::optional<Op> product_sum_cuda(const Op& product, const Op* cast, const Op& sum);

}  // namespace plimsoll
