// How products of 16-bit matrices are cut into float32 blocks, and what scratch that takes: for the kernels and for the
// figures of their workspace. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

/// Rows and columns of a result, and depth, that are widened at a time. Each widened number is used in some thousand
/// multiply-adds, so that widening is a few percent of the product; three blocks are 12 MiB.
constexpr int64_t kProductBlock = 1024;

/// Rows of a block begin at multiples of this many numbers, whichever way they lie.
constexpr int64_t kProductLanes = 16;

constexpr int64_t product_block(int64_t size) {
  return (std::min(size, kProductBlock) + kProductLanes - 1) / kProductLanes * kProductLanes;
}

/// Bytes of scratch of [rows, depth] times [depth, columns] in float32 blocks: one of each operand, one of the result.
constexpr int64_t product_scratch(int64_t rows, int64_t depth, int64_t columns) {
  const int64_t m = product_block(rows), k = product_block(depth), n = product_block(columns);
  return 4 * (m * k + k * n + m * n);
}

}  // namespace plimsoll::ops
