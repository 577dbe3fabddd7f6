// Declares the matrix that Adafactor sees in a parameter, and the parts in which its sums are taken. No libtorch: the
// kernel, the state and the estimates of its workspace (ops/workspace) must agree.
#pragma once

#include "ops/arithmetic/formats.h"
#include "ops/rows.h"

namespace plimsoll::ops {

struct MatrixShape {
  int64_t rows = 1, columns = 1;
};

/// Returns the shape of the matrix. A row is contiguous in memory: one slice of the dimension with the largest stride.
/// A vector is one row; its column means are then the means of its squares themselves.
inline MatrixShape matrix_shape(Dims sizes, Dims strides) {
  const int64_t count = elements(sizes);
  if (sizes.size() < 2 || count == 0) return {1, count};
  size_t outermost = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && (sizes[outermost] == 1 || strides[d] > strides[outermost])) outermost = d;
  return {sizes[outermost], count / sizes[outermost]};
}

/// Maximum number of parts of the elements; each part has its own column sums.
constexpr int64_t kAdafactorParts = 16;
inline int64_t adafactor_parts(int64_t count) {
  return std::clamp<int64_t>(div_up(count, kChunk), 1, kAdafactorParts);
}

}  // namespace plimsoll::ops
