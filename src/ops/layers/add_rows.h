// Sums of rows that other operators make on the way: of add_rms_norm and rms_norm_backward_add. No libtorch.
#pragma once

#include <cstdint>

#include "ops/kernel_arguments.h"

namespace plimsoll::ops {

/// sum = a + b over rows of `width`, added in the accumulator and rounded once. One of a and b has the sum's type; the
/// other has it too or, beside float32, 16 bits. `sum` may lie where a or b lies.
struct AddRows {
  ConstRows a;
  ConstRows b;
  Rows sum;
  int64_t width;
};

/// The rows [begin, end), on the CPU.
void add_rows(AddRows args, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
