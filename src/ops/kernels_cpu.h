// Declares the arithmetic of our CPU operators on raw rows: no tensors, no allocation, no threads. The operators cut
// their work into ranges of rows and call these functions from at::parallel_for. The functions are compiled for several
// instruction sets; cpu_capability() says which one runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel_arguments.h"
#include "ops/rows.h"

namespace plimsoll::ops {

void rms_norm_rows(const RmsNorm& args, int64_t begin, int64_t end);

void rms_norm_backward_rows(const RmsNormBackward& args, void* partial, int64_t begin, int64_t end);

/// Computes out[i] = the sum over `count` rows of `partials` (accumulator[count, width], summed in order), for i in
/// [begin, end).
void sum_partials(const void* partials, int64_t count, int64_t width, DType accumulator, void* out, DType out_dtype,
                  int64_t begin, int64_t end);

/// Computes y = silu(first half) * second half of rows of 2 * width.
void swiglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end);
void swiglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                          int64_t begin, int64_t end);

/// Computes the same with gelu (its tanh form) instead of silu.
void geglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end);
void geglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                         int64_t begin, int64_t end);

void cross_entropy_rows(const CrossEntropy& args, int64_t begin, int64_t end);

void split_add_rows(const SplitAdd& args, int64_t begin, int64_t end);

/// Returns the sum of the squares of elements [begin, end). Blocks of a few hundred elements are summed in the type of
/// the arithmetic, and their sums in float64. No finite element of a float32 or 16-bit type overflows.
double sum_of_squares(const void* data, DType dtype, int64_t begin, int64_t end);

/// The arguments of sum = a + b over rows of `width`, added in the accumulator and rounded once. One of a and b has the
/// sum's type; the other has it too or, next to float32, 16 bits. `sum` may share the memory of a or b.
struct AddRows {
  ConstRows a;
  ConstRows b;
  Rows sum;
  int64_t width;
};

/// Adds the rows [begin, end) on the CPU.
void add_rows(AddRows args, int64_t begin, int64_t end);

/// Returns the number of rows, of `rows` in total, that the kernels of a sum and of a norm process alternately. The
/// second kernel then finds the output of the first in the cache. A thread of rms_norm_backward_add holds this many
/// rows of dx.
inline int64_t rows_per_pass_of(int64_t rows, int64_t width) {
  constexpr int64_t kElements = 4096;
  return std::clamp<int64_t>(kElements / std::max<int64_t>(1, width), 1, norm_block_rows(rows));
}

}  // namespace plimsoll::ops
