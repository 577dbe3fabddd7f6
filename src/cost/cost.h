// By what an op's cost is told (cost_model.h): its kind and its type.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// The kind that an op's operator belongs to. Views and other ops that move nothing are `streaming`.
OpKind kind_of(const Op& op);

/// The type that an op computes in: of its first floating-point operand.
DType compute_type_of(const Op& op);

}  // namespace plimsoll
