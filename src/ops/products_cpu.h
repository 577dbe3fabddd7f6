// Declares matmuls of 16-bit matrices in float32 blocks, for processors that have no instructions for 16-bit matmuls.
//
// On such processors libtorch's own kernels for these matmuls are 5 to 40 times as slow as float32's. Their speed is
// measured (ops/matmul_throughput.h). If it is slow, aten::mm, addmm, bmm and baddbmm of bfloat16 or float16
// widen blocks of their operands into bounded scratch. The float32 matmul sums these blocks, and each result is
// rounded once. Everything else about these operators stays libtorch's.
//
// The kernels replace libtorch's in its dispatcher, for the whole process. A model that runs eagerly therefore computes
// the same bits as a planned one, as with every other operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace plimsoll::ops {

/// Computes out = beta x self + alpha x a b, summed in float32 and rounded once. a [m, k], b [k, n] and out [m, n] are
/// of one 16-bit type, in any strides, and not empty. self is expanded to out's shape, or undefined if beta is 0; it
/// may be out. Scratch: matmul_scratch(m, k, n) bytes.
void product_in_blocks(const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                       double beta, double alpha);

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
