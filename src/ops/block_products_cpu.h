// Declares matmuls of blocks that are in a core's caches, on raw memory: no allocation, no threads. They are
// compiled for several instruction sets; one is chosen at run time. Each element is a sum over the depth from its
// beginning to its end, whatever the blocks.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::ops {

/// The left matrix of a matmul: element (i, k) is data[i * row + k * column].
template <typename Element>
struct BlockLeft {
  const Element* data;
  int64_t row, column;
};

/// Elements of the vectors that results are made of. The columns of a matmul are a multiple of it.
constexpr int64_t kBlockLanes = 16;

/// Memory that the caller uses after a matmul: `rows` rows of `bytes` bytes, `stride` bytes from one to the next. A
/// matmul on wide tiles loads it into the second-level cache while it computes, because the processor's own prefetching
/// stops at the ends of pages and of rows, and lines that another core wrote take long to arrive.
struct ReadAhead {
  const char* data = nullptr;
  int64_t rows = 0, stride = 0, bytes = 0;
  bool written = false;  ///< true: the caller writes to it, and other cores lose their copies
};

/// Computes c [rows, columns] = a b, or c + a b with `add`; a [rows, depth], b [depth, columns]. `c_row` and `b_row`
/// are elements from a row to the next. `rows`, `depth` and `columns` are at least 1.
void block_product(float* c, int64_t c_row, const BlockLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add, std::span<const ReadAhead> ahead = {});
void block_product(double* c, int64_t c_row, const BlockLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add);

/// Returns true if this machine has tiles for matmuls of float32 that reach its peak arithmetic (AVX-512).
bool has_wide_tiles();
/// Returns true if this machine has matmuls of bfloat16 in hardware that a core's vectors do not reach (AMX).
/// Leave these matmuls to libtorch then.
bool has_tile_products();

/// Two bfloat16 that are neighbors along the depth of a matmul; the first is the lower half.
using Pair = uint32_t;

/// Returns true if this machine has dot products of bfloat16 pairs (AVX512-BF16). The block_product of pairs needs
/// them.
bool has_pair_products();

/// Computes the same matmul with pairs along the depth. The pair (i, p) of `a` is the two adjacent elements from
/// data[i * row + p * column] on, at any address. `depth` counts pairs. Sums are float32, of two products at a time.
void block_product(float* c, int64_t c_row, const BlockLeft<uint16_t>& a, const Pair* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add, std::span<const ReadAhead> ahead = {});

}  // namespace plimsoll::ops
