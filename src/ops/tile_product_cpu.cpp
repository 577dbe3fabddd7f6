#include "ops/tile_product.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu_capability.h"
#include "ops/lanes.h"

namespace plimsoll::ops {
namespace {

// The vector type of a register of `kBytes` bytes.
template <typename S, int kBytes>
struct Register {
  using Type __attribute__((vector_size(kBytes))) = S;
};

// A tile's rows and registers of sums. The widest tile uses 12 of 16 registers; the others hold the left elements and
// one right vector.
constexpr int kRows = 3, kRegisters = 4;

template <typename S, int kBytes, int kTall, int kWide>
PLIMSOLL_INLINE void block(S* c, int64_t c_row, const TileLeft<S>& a, int64_t i, const S* b, int64_t b_row,
                           int64_t begin, int64_t end, bool add) {
  using V = typename Register<S, kBytes>::Type;
  constexpr int64_t kHeld = kBytes / sizeof(S);
  V sums[kTall][kWide];
#pragma GCC unroll 8
  for (int r = 0; r < kTall; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kWide; ++v) sums[r][v] = V{};
  for (int64_t k = begin; k < end; ++k) {
    S left[kTall];
#pragma GCC unroll 8
    for (int r = 0; r < kTall; ++r) left[r] = a.data[(i + r) * a.row + k * a.column];
#pragma GCC unroll 8
    for (int v = 0; v < kWide; ++v) {
      const V right = lanes::read<V>(b + k * b_row + v * kHeld);
#pragma GCC unroll 8
      for (int r = 0; r < kTall; ++r) sums[r][v] += left[r] * right;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTall; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kWide; ++v) {
      S* to = c + (i + r) * c_row + v * kHeld;
      if (add) sums[r][v] += lanes::read<V>(to);
      std::memcpy(to, &sums[r][v], sizeof(V));
    }
}

// Computes the last columns, which do not fill a register.
template <typename S, int kTall>
PLIMSOLL_INLINE void last_columns(S* c, int64_t c_row, const TileLeft<S>& a, int64_t i, const S* b, int64_t b_row,
                                  int64_t columns, int64_t begin, int64_t end, bool add) {
  for (int64_t j = 0; j < columns; ++j) {
    S sums[kTall]{};
    for (int64_t k = begin; k < end; ++k)
#pragma GCC unroll 8
      for (int r = 0; r < kTall; ++r) sums[r] += a.data[(i + r) * a.row + k * a.column] * b[k * b_row + j];
    for (int r = 0; r < kTall; ++r) {
      S& to = c[(i + r) * c_row + j];
      to = add ? sums[r] + to : sums[r];
    }
  }
}

template <typename S, int kBytes, int kTall>
PLIMSOLL_INLINE void some_rows(S* c, int64_t c_row, const TileLeft<S>& a, int64_t i, const S* b, int64_t b_row,
                               int64_t depth, int64_t columns, bool add) {
  constexpr int64_t kHeld = kBytes / sizeof(S);
  const int64_t begin = a.filled == Filled::upper ? i : 0;
  const int64_t end = a.filled == Filled::lower ? std::min(depth, i + kTall) : depth;
  int64_t j = 0;
  for (; j + kRegisters * kHeld <= columns; j += kRegisters * kHeld)
    block<S, kBytes, kTall, kRegisters>(c + j, c_row, a, i, b + j, b_row, begin, end, add);
  for (; j + 2 * kHeld <= columns; j += 2 * kHeld)
    block<S, kBytes, kTall, 2>(c + j, c_row, a, i, b + j, b_row, begin, end, add);
  for (; j + kHeld <= columns; j += kHeld)
    block<S, kBytes, kTall, 1>(c + j, c_row, a, i, b + j, b_row, begin, end, add);
  last_columns<S, kTall>(c + j, c_row, a, i, b + j, b_row, columns - j, begin, end, add);
}

template <typename S, int kBytes>
PLIMSOLL_INLINE void all_rows(S* c, int64_t c_row, const TileLeft<S>& a, const S* b, int64_t b_row, int64_t rows,
                              int64_t depth, int64_t columns, bool add) {
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) some_rows<S, kBytes, kRows>(c, c_row, a, i, b, b_row, depth, columns, add);
  for (; i < rows; ++i) some_rows<S, kBytes, 1>(c, c_row, a, i, b, b_row, depth, columns, add);
}

}  // namespace

PLIMSOLL_VARIANTS(void, tile_product_f32,
                  (float* c, int64_t c_row, const TileLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add),
                  (c, c_row, a, b, b_row, rows, depth, columns, add),
                  { all_rows<float, kNativeBytes>(c, c_row, a, b, b_row, rows, depth, columns, add); })
PLIMSOLL_VARIANTS(void, tile_product_f64,
                  (double* c, int64_t c_row, const TileLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add),
                  (c, c_row, a, b, b_row, rows, depth, columns, add),
                  { all_rows<double, kNativeBytes>(c, c_row, a, b, b_row, rows, depth, columns, add); })

void tile_product(float* c, int64_t c_row, const TileLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add) {
  tile_product_f32(c, c_row, a, b, b_row, rows, depth, columns, add);
}
void tile_product(double* c, int64_t c_row, const TileLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                  int64_t depth, int64_t columns, bool add) {
  tile_product_f64(c, c_row, a, b, b_row, rows, depth, columns, add);
}

}  // namespace plimsoll::ops
