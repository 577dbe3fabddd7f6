// Declares how the CPU kernels of the fused op of a sum and a norm cut their work. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

/// Returns the number of rows, of `rows` in total, that the kernels of a sum and of a norm process alternately. The
/// second kernel then finds the output of the first in the cache. A thread of rms_norm_backward_add holds this many
/// rows of dx.
inline int64_t rows_per_pass_of(int64_t rows, int64_t width) {
  constexpr int64_t kElements = 4096;
  return std::clamp<int64_t>(kElements / std::max<int64_t>(1, width), 1, norm_block_rows(rows));
}

}  // namespace plimsoll::ops
