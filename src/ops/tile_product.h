// Declares matmuls of small matrices that are in cache, for kernels that run on one thread each. Sums are taken in the
// same order on every instruction set.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

/// The elements of the left matrix that are not zero.
enum class Filled : uint8_t {
  whole,
  lower,  ///< elements with column <= row
  upper,  ///< elements with column >= row
};

/// A left matrix A [rows, depth], transposed or not: element (i, k) is data[i * row + k * column].
template <typename S>
struct TileLeft {
  const S* data;
  int64_t row, column;
  Filled filled = Filled::whole;
};

/// Computes c [rows, columns] = a b, or c + a b with `add`; b [depth, columns]. If `a` is triangular, the zeros next to
/// its diagonal (up to two a row) are read and must be stored.
void tile_product(float* c, int64_t c_row, const TileLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add);
void tile_product(double* c, int64_t c_row, const TileLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add);

}  // namespace plimsoll::ops
