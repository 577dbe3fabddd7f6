// Declares the fusion of a sum with the rms_norm of it, and of rms_norm's backward with the sum that its gradient
// enters. It recognizes such pairs of ops in a plan and returns the one op that replaces both.
#pragma once

#include <optional>

#include "ops/fused/pointwise_ops.h"

namespace plimsoll {

/// Returns one op with the results of `first` and `second`, bit for bit on the CPU; nullopt if no kernel exists for the
/// pair. Only name, arguments, results and call of the op are set. A pair needs sums of two tensors of one shape, whose
/// rows have one constant stride. No other operand may be in the buffer of the sum, except an operand of the sum in
/// place.
std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device);

}  // namespace plimsoll
