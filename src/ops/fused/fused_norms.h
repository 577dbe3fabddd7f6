// A sum and the rms_norm of it, and rms_norm's backward and the sum that its gradient goes into: which of a plan's ops
// are such a pair, and the one op that stands in for both.
#pragma once

#include <optional>

#include "ops/fused/pointwise_ops.h"

namespace plimsoll {

/// `first` and `second` as one op with the same results, to the bit on the CPU; nullopt: they are no pair that has a
/// kernel. Of the op only name, arguments, results and call are set. A pair needs sums of two tensors of one shape,
/// whose rows are one stride apart, and a result that nothing else is read from.
std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device);

}  // namespace plimsoll
