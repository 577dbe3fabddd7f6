// Declares the scratch of the optimizers' CUDA kernels. No libtorch, no CUDA: launchers, operators and the estimates of
// their workspace (ops/workspace) must agree.
#pragma once

#include "ops/optimizer/adafactor_plan.h"

namespace plimsoll::cuda {

/// Number of partial sums of a norm, float64 each.
constexpr int64_t kNormParts = 256;

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
