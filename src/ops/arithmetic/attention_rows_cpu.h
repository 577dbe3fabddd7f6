// Rows of attention in and out of blocks in a core's caches: no tensors, no allocation, no threads. Compiled for
// several instruction sets; cpu_capability() says which runs.
//
// "Wide": float64 for float64 elements, float32 for every other. Lanes beyond the last row hold numbers that are never
// stored.
#pragma once

#include <cstdint>

#include "ops/arithmetic/block_products_cpu.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Tokens of one head: `count` rows of `width` elements side by side, `stride` elements apart.
template <typename Data>
struct HeadRowsOf {
  Data* data;
  DType dtype;
  int64_t stride, count, width;
};
using HeadRows = HeadRowsOf<const void>;
using MutableHeadRows = HeadRowsOf<void>;

/// wide [width, lanes]: the rows turned, zeros beyond the last.
void turn_rows(const HeadRows& rows, int64_t lanes, void* to);
/// wide [count, columns], zeros beyond the width.
void widen_rows(const HeadRows& rows, int64_t columns, void* to);
/// Of bfloat16 rows whose width is even: [width / 2, lanes], each row's pairs of neighbours, turned.
void turn_pairs(const HeadRows& rows, int64_t lanes, Pair* to);
/// Of bfloat16 rows: [(count + 1) / 2, columns], elements of rows 2 i and 2 i + 1 in a pair; zeros beyond either end.
void pair_rows(const HeadRows& rows, int64_t columns, Pair* to);
/// From wide [width, lanes], each lane multiplied by its factor (wide [lanes]; none: as it is).
void store_turned(const void* from, int64_t lanes, const void* factors, const MutableHeadRows& to);
/// From wide [count, columns].
void store_rows(const void* from, int64_t columns, const MutableHeadRows& to);
/// wide [count]: the products of rows of `a` and `b`, summed.
void row_products(const HeadRows& a, const HeadRows& b, void* to);

}  // namespace plimsoll::ops
