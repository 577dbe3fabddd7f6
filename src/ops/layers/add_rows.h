// Declares the sums of rows that add_rms_norm and rms_norm_backward_add compute, and how their CPU kernels cut their
// work. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel_arguments.h"
#include "ops/rows.h"

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

/// Returns the number of rows, of `rows` in total, that the kernels of a sum and of a norm process alternately. The
/// second kernel then finds the output of the first in the cache. A thread of rms_norm_backward_add holds this many
/// rows of dx.
inline int64_t rows_per_pass_of(int64_t rows, int64_t width) {
  constexpr int64_t kElements = 4096;
  return std::clamp<int64_t>(kElements / std::max<int64_t>(1, width), 1, norm_block_rows(rows));
}

}  // namespace plimsoll::ops
