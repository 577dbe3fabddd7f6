// Products of blocks that lie in a core's caches, on raw memory: no allocation, no threads. Compiled for several
// instruction sets, chosen at run time. Each number is a sum over the depth from its beginning to its end, whatever the
// blocks.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

/// The left matrix of a product: element (i, k) lies at data[i * row + k * column].
template <typename Element>
struct BlockLeft {
  const Element* data;
  int64_t row, column;
};

/// Numbers in the vectors that results are made of: the columns of a product are a multiple of it.
constexpr int64_t kBlockLanes = 16;

/// c [rows, columns] = a b, or c + a b with `add`; a [rows, depth], b [depth, columns]. `c_row` and `b_row` are
/// elements from a row to the next.
void block_product(float* c, int64_t c_row, const BlockLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add);
void block_product(double* c, int64_t c_row, const BlockLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add);

/// Whether this machine has tiles for products of float32 that reach what it can compute (AVX-512).
bool has_wide_tiles();
/// Whether it has products of bfloat16 in hardware that a core's vectors do not reach (AMX): leave them to libtorch.
bool has_tile_products();

/// Two bfloat16 that are neighbours along the depth of a product; the first is the lower half.
using Pair = uint32_t;

/// Whether this machine has dot products of bfloat16 pairs (AVX512-BF16): block_product of pairs wants them.
bool has_pair_products();

/// The same with pairs along the depth. The pair (i, p) of `a` is read from data[i * row + p * column] on, two elements
/// that lie side by side at any address; `depth` counts pairs. Sums are float32, of two products at a time.
void block_product(float* c, int64_t c_row, const BlockLeft<uint16_t>& a, const Pair* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add);

}  // namespace plimsoll::ops
