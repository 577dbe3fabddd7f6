// Products of small matrices that lie in cache, for kernels that run on one thread each. Sums are taken in the same
// order whatever the instruction set. Only kernels compiled for several of them include this (lanes.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/lanes.h"

namespace plimsoll::ops::lanes {

/// Which elements of the left matrix are not zero.
enum class Filled : uint8_t {
  whole,
  lower,  ///< those with column <= row
  upper,  ///< those with column >= row
};

/// A [rows, depth] as it is or transposed: element (i, k) at data[i * row + k * column].
template <typename S>
struct Left {
  const S* data;
  int64_t row, column;
  Filled filled = Filled::whole;
};

template <int kRows, int kVectors, typename S>
PLIMSOLL_INLINE void product_block(S* c, int64_t c_row, const Left<S>& a, int64_t i, const S* b, int64_t b_row,
                                   int64_t j, int64_t begin, int64_t end, int64_t partial, bool add) {
  using V = VectorOf<S>;
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[r][v] = V{};
  for (int64_t k = begin; k < end; ++k) {
    V right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) right[v] = load_some(b + k * b_row + j + v * kLanes, partial);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const S left = a.data[(i + r) * a.row + k * a.column];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      S* to = c + (i + r) * c_row + j + v * kLanes;
      store_some(to, add ? sums[r][v] + load_some(static_cast<const S*>(to), partial) : sums[r][v], partial);
    }
}

template <int kRows, typename S>
PLIMSOLL_INLINE void product_rows(S* c, int64_t c_row, const Left<S>& a, int64_t i, const S* b, int64_t b_row,
                                  int64_t depth, int64_t columns, bool add) {
  const int64_t begin = a.filled == Filled::upper ? i : 0;
  const int64_t end = a.filled == Filled::lower ? std::min(depth, i + kRows) : depth;
  int64_t j = 0;
  for (; j + 2 * kLanes <= columns; j += 2 * kLanes)
    product_block<kRows, 2>(c, c_row, a, i, b, b_row, j, begin, end, 0, add);
  for (; j < columns; j += kLanes) {
    const int64_t left = columns - j;
    product_block<kRows, 1>(c, c_row, a, i, b, b_row, j, begin, end, left < kLanes ? left : 0, add);
  }
}

/// c [rows, columns] = a b, or c + a b with `add`; b [depth, columns]. Of a triangular `a` the zeros next to the
/// diagonal (up to two a row) are read and must be there.
template <typename S>
PLIMSOLL_INLINE void product(S* c, int64_t c_row, const Left<S>& a, const S* b, int64_t b_row, int64_t rows,
                             int64_t depth, int64_t columns, bool add) {
  constexpr int kBlock = 3;
  int64_t i = 0;
  for (; i + kBlock <= rows; i += kBlock) product_rows<kBlock>(c, c_row, a, i, b, b_row, depth, columns, add);
  for (; i < rows; ++i) product_rows<1>(c, c_row, a, i, b, b_row, depth, columns, add);
}

}  // namespace plimsoll::ops::lanes
