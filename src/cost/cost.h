// Declares the dtype of an op for the cost model (cost_model.h); its kind is in operators.h.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the dtype that an op computes in: that of its first floating-point operand.
DType compute_type_of(const Op& op);

}  // namespace plimsoll
