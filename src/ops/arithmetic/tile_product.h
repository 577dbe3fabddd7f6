// Products of small matrices that lie in cache, for kernels that run on one thread each. Sums are taken in the same
// order whatever the instruction set.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

/// Which elements of the left matrix are not zero.
enum class Filled : uint8_t {
  whole,
  lower,  ///< those with column <= row
  upper,  ///< those with column >= row
};

/// A [rows, depth] as it is or transposed: element (i, k) at data[i * row + k * column].
template <typename S>
struct TileLeft {
  const S* data;
  int64_t row, column;
  Filled filled = Filled::whole;
};

/// c [rows, columns] = a b, or c + a b with `add`; b [depth, columns]. Of a triangular `a` the zeros next to the
/// diagonal (up to two a row) are read and must be there.
void tile_product(float* c, int64_t c_row, const TileLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add);
void tile_product(double* c, int64_t c_row, const TileLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add);

}  // namespace plimsoll::ops
