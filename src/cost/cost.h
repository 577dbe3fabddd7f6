// Declares the classification of ops for the cost model (cost_model.h): their kind and their dtype.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the kind of an op's operator. Views and other ops that move no data are `streaming`.
OpKind kind_of(const Op& op);

/// Returns the dtype that an op computes in: that of its first floating-point operand.
DType compute_type_of(const Op& op);

}  // namespace plimsoll
