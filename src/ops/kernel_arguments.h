// Declares the arguments of our operators' arithmetic on raw rows. CPU kernels (kernels_cpu.h) and CUDA kernels
// (*_launch.h, each in the folder of its operator) share them. No libtorch.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// A matrix of rows whose elements are contiguous; `stride` is in elements, from a row to the next.
struct Rows {
  void* data = nullptr;
  DType dtype = DType::float32;
  int64_t stride = 0;
};
struct ConstRows {
  const void* data = nullptr;
  DType dtype = DType::float32;
  int64_t stride = 0;
};

// Elements are float32, bfloat16, float16 or float64. "Accumulator" below: float64 for float64 data, float32 for every
// other type. float64 mixes with float64 only.

/// The arguments of y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps), over rows of `width`. A row whose mean
/// square is 0 has rstd = 1: y is 0 all the same, and the backward's dx is grad_y weight. With 1 / sqrt(eps), which is
/// 316 for 1e-5, each norm that a blank part of an input passes would multiply its gradient, beyond what float32 holds.
struct RmsNorm {
  ConstRows x;
  Rows y;
  const void* weight;  ///< accumulator[width]
  void* rstd;          ///< accumulator, one per row; written
  int64_t width;
  double eps;
};

/// The arguments of rms_norm's backward for the rows [begin, end): dx, and grad_y * x * rstd, which is added to
/// `partial` (accumulator[width]).
struct RmsNormBackward {
  ConstRows grad_y;
  ConstRows x;
  Rows dx;
  const void* weight;  ///< accumulator[width]
  const void* rstd;    ///< accumulator, one per row
  int64_t width;
};

/// The arguments of the softmax of rows of c = cap tanh(scale x / cap), over the columns that a row sees; the other
/// columns get 0. `x` is of the accumulator type.
struct CappedSoftmax {
  Rows scores;  ///< x; overwritten with the probabilities
  double scale, cap;
  int64_t width;
  int64_t first_seen;  ///< row 0 sees columns [first_seen, seen), each next row one further; below 0 is 0
  int64_t seen;
  bool causal;      ///< false: every row sees all columns
  void* logsumexp;  ///< accumulator, one per row; written, or read by the backward
};

/// The arguments of the cross entropy of rows of logits with their targets, in float32 (float64 for float64).
struct CrossEntropy {
  Rows logits;             ///< logits; with `gradient` overwritten by softmax - one_hot, or 0 for an ignored row
  const int64_t* targets;  ///< class indices in [0, width), or ignore_index
  int64_t target_stride;
  int64_t ignore_index;
  void* losses;  ///< accumulator, one per row; written; 0 for an ignored row
  int64_t width;
  bool gradient;
  double softcap = 0;  ///< if above 0, a logit counts as softcap tanh(logit / softcap); logits are overwritten
};

/// The arguments of an addition of rows of `part` to a sum stored as `high` + `low`. The two values are of the same
/// 16-bit (or wider) type, and a long series of additions loses nothing to rounding. `low` without data is read as zero
/// and not written.
struct SplitAdd {
  ConstRows part;
  Rows high;
  Rows low;
  bool read_low;
  bool write_low;
  int64_t width;
};

}  // namespace plimsoll::ops
