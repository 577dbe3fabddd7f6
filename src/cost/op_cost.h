// Arithmetic and traffic of an operator call, from its shapes.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Arithmetic operations (a multiply-add is two). Matrix products, convolutions, attention and the loss head by
/// formula; everything else one operation for each element of its largest operand.
double flops_of(const Op& op);

/// Bytes read and written: elements times element size, not strides. Each operand once; what an update operator of ours
/// changes in place, twice.
int64_t bytes_moved_by(const Op& op);

}  // namespace plimsoll
