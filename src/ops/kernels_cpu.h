// The arithmetic of our CPU operators on raw rows: no tensors, no allocation, no threads. The operators cut their work
// into ranges of rows and call these from at::parallel_for. Compiled for several instruction sets, chosen when the
// library is loaded.
#pragma once

#include <cstdint>

#include "plimsoll/dtype.h"

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
void rms_norm_rows(const RmsNorm& args, int64_t begin, int64_t end);

/// dx, and grad_y * x * rstd summed over the rows [begin, end) into `partial` (accumulator[width], overwritten).
struct RmsNormBackward {
  ConstRows grad_y;
  ConstRows x;
  Rows dx;
  const void* weight;  ///< accumulator[width]
  const void* rstd;    ///< accumulator, one a row
  int64_t width;
};
void rms_norm_backward_rows(const RmsNormBackward& args, void* partial, int64_t begin, int64_t end);

/// out[i] = the sum over `count` rows of `partials` (accumulator[count, width], summed in order), for i in [begin,
/// end).
void sum_partials(const void* partials, int64_t count, int64_t width, DType accumulator, void* out, DType out_dtype,
                  int64_t begin, int64_t end);

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
void rope_tokens(const Rope& args, int64_t begin, int64_t end);

/// y = silu(first half) * second half of rows of 2 * width.
void swiglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end);
void swiglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                          int64_t begin, int64_t end);

/// The same with gelu (its tanh form) in place of silu.
void geglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end);
void geglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                         int64_t begin, int64_t end);

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
void capped_softmax_rows(const CappedSoftmax& args, int64_t begin, int64_t end);
/// The probabilities again, from x and logsumexp, and in `grad`, which comes as the gradient of the probabilities, the
/// gradient of x: p (grad - delta) (1 - (c / cap)^2) scale.
void capped_softmax_backward_rows(const CappedSoftmax& args, const Rows& grad, const void* delta, int64_t begin,
                                  int64_t end);

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
void cross_entropy_rows(const CrossEntropy& args, int64_t begin, int64_t end);

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
void split_add_rows(const SplitAdd& args, int64_t begin, int64_t end);

/// The sum of the squares of elements [begin, end), summed in float64 a few hundred at a time.
double sum_of_squares(const void* data, DType dtype, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
