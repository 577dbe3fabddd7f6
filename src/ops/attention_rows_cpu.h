// Declares kernels that copy rows of attention into and out of blocks in a core's caches: no tensors, no allocation, no
// threads. They are compiled for several instruction sets; cpu_capability() says which one runs.
//
// "Wide": float64 for float64 elements, float32 for every other type. Lanes beyond the last row hold values that are
// never stored.
#pragma once

#include <cstdint>

#include "ops/block_products_cpu.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// The tokens of one head: `count` rows of `width` contiguous elements, `stride` elements from one row to the next.
template <typename Data>
struct HeadRowsOf {
  Data* data;
  DType dtype;
  int64_t stride, count, width;
};
using HeadRows = HeadRowsOf<const void>;
using MutableHeadRows = HeadRowsOf<void>;

/// Writes the transposed rows to `to`: wide [width, lanes], zeros beyond the last row.
void transpose_rows(const HeadRows& rows, int64_t lanes, void* to);
/// Writes the widened rows to `to`: wide [count, columns], zeros beyond the width.
void widen_rows(const HeadRows& rows, int64_t columns, void* to);
/// Writes each row's pairs of neighbors, transposed, to `to`: [width / 2, lanes]. Rows are bfloat16 of even width.
void transpose_pairs(const HeadRows& rows, int64_t lanes, Pair* to);
/// Pairs elements of rows 2 i and 2 i + 1 of bfloat16 rows: [(count + 1) / 2, columns], zeros beyond either end.
void pair_rows(const HeadRows& rows, int64_t columns, Pair* to);
/// Stores wide [width, lanes] as rows, each lane multiplied by its factor (`factors`: wide [lanes]; null: no factors).
void store_transposed(const void* from, int64_t lanes, const void* factors, const MutableHeadRows& to);
/// Stores wide [count, columns] as rows.
void store_rows(const void* from, int64_t columns, const MutableHeadRows& to);
/// Writes the dot product of each row of `a` with that row of `b` to `to`: wide [count].
void row_products(const HeadRows& a, const HeadRows& b, void* to);

}  // namespace plimsoll::ops
