// Declares how matmuls of 16-bit matrices are cut into float32 blocks, and the scratch of these blocks. The kernels and
// the estimates of their workspace share it. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

/// Rows and columns of a result, and depth, that are widened at a time. Each widened element is used in about a
/// thousand multiply-adds, so widening is a few percent of the matmul. Three blocks are 12 MiB.
constexpr int64_t kProductBlock = 1024;

/// The alignment of a block's rows, in elements, in either orientation.
constexpr int64_t kProductLanes = 16;

constexpr int64_t product_block(int64_t size) {
  return (std::min(size, kProductBlock) + kProductLanes - 1) / kProductLanes * kProductLanes;
}

/// Returns the bytes of scratch of [rows, depth] times [depth, columns] in float32 blocks: one of each operand, one of
/// the result.
constexpr int64_t matmul_scratch(int64_t rows, int64_t depth, int64_t columns) {
  const int64_t m = product_block(rows), k = product_block(depth), n = product_block(columns);
  return 4 * (m * k + k * n + m * n);
}

}  // namespace plimsoll::ops
