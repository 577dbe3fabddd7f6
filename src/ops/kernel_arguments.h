// What the arithmetic of our operators is told, on raw rows: the same for CPU kernels (kernels_cpu.h) and CUDA's
// (*_launch.h, each in the folder of its operator). No libtorch.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// A matrix of rows whose elements lie side by side; `stride` in elements, from a row to the next.
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
// other. float64 mixes with float64 only.

/// y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps), over rows of `width`.
struct RmsNorm {
  ConstRows x;
  Rows y;
  const void* weight;  ///< accumulator[width]
  void* rstd;          ///< accumulator, one a row, written
  int64_t width;
  double eps;
};

/// dx, and grad_y * x * rstd of the rows [begin, end), which are added to `partial` (accumulator[width]).
struct RmsNormBackward {
  ConstRows grad_y;
  ConstRows x;
  Rows dx;
  const void* weight;  ///< accumulator[width]
  const void* rstd;    ///< accumulator, one a row
  int64_t width;
};

/// Rotates the pairs (i, i + width / 2) of x [batch, tokens, heads, width] for the tokens [begin, end); `out` is
/// contiguous.
struct Rope {
  const void* x;
  void* out;
  DType dtype;
  int64_t batch, tokens, heads, width;
  int64_t batch_stride, token_stride, head_stride;  ///< of x, in elements
  const double* frequencies;                        ///< radians a position, width / 2 of them
  int64_t position;                                 ///< of the first token
  bool inverse;                                     ///< rotate back
};

/// Softmax of rows of c = cap tanh(scale x / cap) over the columns that a row sees; the others get 0. `x` is
/// accumulator.
struct CappedSoftmax {
  Rows scores;  ///< x; overwritten with the probabilities
  double scale, cap;
  int64_t width;
  int64_t first_seen;  ///< row 0 sees the columns [first_seen, seen), each further row one further; below 0 is 0
  int64_t seen;
  bool causal;      ///< otherwise every row sees all
  void* logsumexp;  ///< accumulator, one a row; written, or read by the backward
};

/// Cross entropy of rows of logits with their targets, in float32 (float64 for float64).
struct CrossEntropy {
  Rows logits;             ///< with `gradient`: overwritten with softmax - one_hot, or 0 for an ignored row
  const int64_t* targets;  ///< in [0, width), or ignore_index
  int64_t target_stride;
  int64_t ignore_index;
  void* losses;  ///< accumulator, one a row, written; 0 for an ignored row
  int64_t width;
  bool gradient;
  double softcap = 0;  ///< above 0 the logits count as softcap tanh(logit / softcap); they are overwritten
};

/// Adds rows of `part` into a sum kept as `high` + `low`, two numbers of the same 16-bit (or wider) type, so that many
/// additions lose nothing to rounding. `low` without data counts as zero on reading and is not written.
struct SplitAdd {
  ConstRows part;
  Rows high;
  Rows low;
  bool read_low;
  bool write_low;
  int64_t width;
};

}  // namespace plimsoll::ops
