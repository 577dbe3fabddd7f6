// Declares the matrix that Adafactor sees in a parameter, the parts in which its sums are taken, and the scratch of
// the optimizers' CUDA kernels. No libtorch, no CUDA.
#pragma once

#include "ops/formats.h"
#include "ops/rows.h"

namespace plimsoll::ops {

/// The matrix that Adafactor sees in a parameter. The kernel, the state and the estimates of its workspace
/// (ops/workspace) must agree on it, and on the parts in which its sums are taken.
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

namespace plimsoll::cuda {

/// Number of partial sums of a norm, float64 each: eight blocks for each multiprocessor of the largest device.
constexpr int64_t kNormParts = 2048;
/// Maximum number of gradients whose norms one launch computes.
constexpr int kNormsOfLaunch = 64;

/// A division of Adafactor's matrix into tiles, one per warp. A tile is kTileColumns wide, and high enough that a
/// column has at most kMaxRowParts sums.
struct AdafactorTiles {
  static constexpr int64_t kTileColumns = 128, kMaxRowParts = 128, kMinRows = 16, kSquareParts = 1024;

  explicit AdafactorTiles(const ops::MatrixShape& shape)
      : rows_of_tile(std::max(kMinRows, ops::div_up(shape.rows, kMaxRowParts))),
        down(ops::div_up(shape.rows, rows_of_tile)),
        across(ops::div_up(shape.columns, kTileColumns)) {}
  int64_t rows_of_tile, down, across;
};

/// Returns the bytes of scratch. It holds, in this order: sums of squares of the update (float64), sums by row and
/// tile, sums by tile and column, the rows' factors, the step's numbers. All but the first are float32.
inline int64_t adafactor_scratch_bytes(const ops::MatrixShape& shape) {
  const AdafactorTiles tiles(shape);
  return AdafactorTiles::kSquareParts * 8 +
         (shape.rows * tiles.across + tiles.down * shape.columns + shape.rows + 2) * 4;
}

}  // namespace plimsoll::cuda
