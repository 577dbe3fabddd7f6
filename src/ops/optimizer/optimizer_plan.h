// The scratch of the optimizers' CUDA kernels. No libtorch, no CUDA: launchers, operators and the figures for their
// workspace (workspace_cuda_rules.h) must agree.
#pragma once

#include "ops/optimizer/adafactor_plan.h"

namespace plimsoll::cuda {

/// Sums that a norm is taken in, float64 each.
constexpr int64_t kNormParts = 256;

/// Adafactor's matrix in tiles, each a warp's: kTileColumns wide and so many rows high that a column has at most
/// kMostRowParts sums.
struct AdafactorTiles {
  static constexpr int64_t kTileColumns = 128, kMostRowParts = 128, kFewestRows = 16, kSquareParts = 1024;

  explicit AdafactorTiles(const ops::MatrixShape& shape)
      : rows_of_tile(std::max(kFewestRows, ops::div_up(shape.rows, kMostRowParts))),
        down(ops::div_up(shape.rows, rows_of_tile)),
        across(ops::div_up(shape.columns, kTileColumns)) {}
  int64_t rows_of_tile, down, across;
};

/// In this order: sums of squares of the update (float64), by row and tile, by tile and column, what rows are
/// multiplied by, and the step's numbers (float32).
inline int64_t adafactor_scratch_bytes(const ops::MatrixShape& shape) {
  const AdafactorTiles tiles(shape);
  return AdafactorTiles::kSquareParts * 8 +
         (shape.rows * tiles.across + tiles.down * shape.columns + shape.rows + 2) * 4;
}

}  // namespace plimsoll::cuda
