#include "ops/attention_rows_cpu.h"

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

/// Interleaves the first halves of two vectors: a0 b0 a1 b1 …; second_halves() interleaves the second halves.
template <typename V>
PLIMSOLL_INLINE V first_halves(const V& a, const V& b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
template <typename V>
PLIMSOLL_INLINE V second_halves(const V& a, const V& b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/// Transposes 16 x 16 elements. Each round rotates the index row x 16 + column by one bit.
template <typename V>
PLIMSOLL_INLINE void transpose(V (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    V next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = first_halves(rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = second_halves(rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

/// Returns columns [j, j + 16) of row i of `rows`; zeros beyond its ends.
template <typename T>
PLIMSOLL_INLINE VectorOf<Scalar<T>> row_part(const HeadRows& rows, int64_t i, int64_t j) {
  if (i >= rows.count) return VectorOf<Scalar<T>>{};
  const int64_t left = rows.width - j;
  return load_some(static_cast<const T*>(rows.data) + i * rows.stride + j, left < kLanes ? left : 0);
}

template <typename T>
PLIMSOLL_INLINE void transpose_rows_of(const HeadRows& rows, int64_t lanes, void* to) {
  using S = Scalar<T>;
  for (int64_t i = 0; i < lanes; i += kLanes)
    for (int64_t j = 0; j < rows.width; j += kLanes) {
      VectorOf<S> part[kLanes];
      if (i + kLanes <= rows.count && j + kLanes <= rows.width) {
        const T* from = static_cast<const T*>(rows.data) + i * rows.stride + j;
#pragma GCC unroll 16
        for (int64_t r = 0; r < kLanes; ++r) part[r] = load(from + r * rows.stride);
      } else {
        for (int64_t r = 0; r < kLanes; ++r) part[r] = row_part<T>(rows, i + r, j);
      }
      transpose(part);
      const int64_t columns = rows.width - j < kLanes ? rows.width - j : kLanes;
      for (int64_t c = 0; c < columns; ++c) store(static_cast<S*>(to) + (j + c) * lanes + i, part[c]);
    }
}

template <typename T>
PLIMSOLL_INLINE void widen_rows_of(const HeadRows& rows, int64_t columns, void* to) {
  for (int64_t i = 0; i < rows.count; ++i)
    for (int64_t j = 0; j < columns; j += kLanes)
      store(static_cast<Scalar<T>*>(to) + i * columns + j, row_part<T>(rows, i, j));
}

template <typename T>
PLIMSOLL_INLINE void store_transposed_of(const void* from, int64_t lanes, const void* factors,
                                         const MutableHeadRows& to) {
  using S = Scalar<T>;
  for (int64_t i = 0; i < to.count; i += kLanes) {
    VectorOf<S> factor = splat<VectorOf<S>>(S{1});
    if (factors) factor = load(static_cast<const S*>(factors) + i);
    const int64_t rows = to.count - i < kLanes ? to.count - i : kLanes;
    for (int64_t j = 0; j < to.width; j += kLanes) {
      const int64_t columns = to.width - j < kLanes ? to.width - j : kLanes;
      VectorOf<S> part[kLanes]{};
      for (int64_t c = 0; c < columns; ++c) part[c] = load(static_cast<const S*>(from) + (j + c) * lanes + i) * factor;
      transpose(part);
      for (int64_t r = 0; r < rows; ++r)
        store_some(static_cast<T*>(to.data) + (i + r) * to.stride + j, part[r], columns < kLanes ? columns : 0);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void store_rows_of(const void* from, int64_t columns, const MutableHeadRows& to) {
  for (int64_t i = 0; i < to.count; ++i) PLIMSOLL_FOR_LANES(j, partial, to.width) {
      store_some(static_cast<T*>(to.data) + i * to.stride + j,
                 load(static_cast<const Scalar<T>*>(from) + i * columns + j), partial);
    }
}

template <typename T>
PLIMSOLL_INLINE void row_products_of(const HeadRows& a, const HeadRows& b, void* to) {
  using S = Scalar<T>;
  for (int64_t i = 0; i < a.count; ++i) {
    VectorOf<S> total{};
    for (int64_t j = 0; j < a.width; j += kLanes) total += row_part<T>(a, i, j) * row_part<T>(b, i, j);
    static_cast<S*>(to)[i] = sum(total);
  }
}

PLIMSOLL_INLINE void transpose_pairs_of(const HeadRows& rows, int64_t lanes, Pair* to) {
  const int64_t width = rows.width / 2;
  const BFloat16* data = static_cast<const BFloat16*>(rows.data);
  for (int64_t i = 0; i < lanes; i += kLanes)
    for (int64_t j = 0; j < width; j += kLanes) {
      const int64_t columns = width - j < kLanes ? width - j : kLanes;
      Words part[kLanes]{};
      const int64_t count = rows.count - i < kLanes ? rows.count - i : kLanes;
      const BFloat16* from = data + i * rows.stride + 2 * j;
      if (count == kLanes && columns == kLanes) {
#pragma GCC unroll 16
        for (int64_t r = 0; r < kLanes; ++r) part[r] = read<Words>(from + r * rows.stride);
      } else {
        for (int64_t r = 0; r < count; ++r)
          std::memcpy(&part[r], static_cast<const void*>(from + r * rows.stride), static_cast<size_t>(columns) * 4);
      }
      transpose(part);
      for (int64_t c = 0; c < columns; ++c) std::memcpy(to + (j + c) * lanes + i, &part[c], sizeof(Words));
    }
}

/// Returns the bits of bfloat16 elements, one element a word.
PLIMSOLL_INLINE Words bits_of(const HeadRows& rows, int64_t i, int64_t j) {
  Halves bits{};
  if (i < rows.count) {
    const BFloat16* from = static_cast<const BFloat16*>(rows.data) + i * rows.stride + j;
    if (rows.width - j >= kLanes)
      bits = read<Halves>(from);
    else
      std::memcpy(&bits, static_cast<const void*>(from), static_cast<size_t>(rows.width - j) * 2);
  }
  return __builtin_convertvector(bits, Words);
}

PLIMSOLL_INLINE void pair_rows_of(const HeadRows& rows, int64_t columns, Pair* to) {
  for (int64_t i = 0; i < rows.count; i += 2, to += columns)
    for (int64_t j = 0; j < columns; j += kLanes) {
      const Words pairs = bits_of(rows, i, j) | (bits_of(rows, i + 1, j) << 16);
      std::memcpy(to + j, &pairs, sizeof(pairs));
    }
}

}  // namespace

PLIMSOLL_KERNELS(transpose_rows_of, (const HeadRows& rows, int64_t lanes, void* to), (rows, lanes, to))
PLIMSOLL_KERNELS(widen_rows_of, (const HeadRows& rows, int64_t columns, void* to), (rows, columns, to))
PLIMSOLL_KERNELS(store_transposed_of, (const void* from, int64_t lanes, const void* factors, const MutableHeadRows& to),
                 (from, lanes, factors, to))
PLIMSOLL_KERNELS(store_rows_of, (const void* from, int64_t columns, const MutableHeadRows& to), (from, columns, to))
PLIMSOLL_KERNELS(row_products_of, (const HeadRows& a, const HeadRows& b, void* to), (a, b, to))

PLIMSOLL_VARIANTS(void, transpose_bf16_pairs, (const HeadRows& rows, int64_t lanes, Pair* to), (rows, lanes, to),
                  { transpose_pairs_of(rows, lanes, to); })
PLIMSOLL_VARIANTS(void, pair_bf16_rows, (const HeadRows& rows, int64_t columns, Pair* to), (rows, columns, to),
                  { pair_rows_of(rows, columns, to); })

void transpose_rows(const HeadRows& rows, int64_t lanes, void* to) {
  pick_transpose_rows_of(rows.dtype, rows, lanes, to);
}
void widen_rows(const HeadRows& rows, int64_t columns, void* to) {
  pick_widen_rows_of(rows.dtype, rows, columns, to);
}
void transpose_pairs(const HeadRows& rows, int64_t lanes, Pair* to) {
  transpose_bf16_pairs(rows, lanes, to);
}
void pair_rows(const HeadRows& rows, int64_t columns, Pair* to) {
  pair_bf16_rows(rows, columns, to);
}
void store_transposed(const void* from, int64_t lanes, const void* factors, const MutableHeadRows& to) {
  pick_store_transposed_of(to.dtype, from, lanes, factors, to);
}
void store_rows(const void* from, int64_t columns, const MutableHeadRows& to) {
  pick_store_rows_of(to.dtype, from, columns, to);
}
void row_products(const HeadRows& a, const HeadRows& b, void* to) {
  pick_row_products_of(a.dtype, a, b, to);
}

}  // namespace plimsoll::ops
