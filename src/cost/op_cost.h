// Computes arithmetic and traffic of an operator call from its shapes.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the arithmetic operations of `op`; a multiply-add counts as two. Matmuls, convolutions, attention and the
/// loss head have formulas. Every other op counts one operation for each element of its largest operand.
double flops_of(const Op& op);

/// Returns the bytes read and written: elements times element size, not strides. Each operand counts once; operands
/// that one of Plimsoll's update operators changes in place count twice.
int64_t bytes_moved_by(const Op& op);

}  // namespace plimsoll
