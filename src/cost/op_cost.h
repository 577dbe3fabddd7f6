// Computes arithmetic and traffic of an operator call from its shapes.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the arithmetic operations of `op` by the formula of its operator (operators.h); a multiply-add counts as
/// two. Operators without a formula count elementwise_flops().
double flops_of(const Op& op);

/// Returns one operation for each element of the largest operand.
double elementwise_flops(const Op& op);

/// Returns the bytes read and written: elements times element size, not strides. Each operand counts once; operands
/// that one of Plimsoll's update operators changes in place count twice.
int64_t bytes_moved_by(const Op& op);

}  // namespace plimsoll
