// Declares the sums of rows that add_rms_norm and rms_norm_backward_add compute as part of their work. No libtorch.
#pragma once

#include <cstdint>

#include "ops/kernel_arguments.h"

namespace plimsoll::ops {

/// The arguments of sum = a + b over rows of `width`, added in the accumulator and rounded once. One of a and b has the
/// sum's type; the other has it too or, next to float32, 16 bits. `sum` may share the memory of a or b.
struct AddRows {
  ConstRows a;
  ConstRows b;
  Rows sum;
  int64_t width;
};

/// Adds the rows [begin, end) on the CPU.
void add_rows(AddRows args, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
