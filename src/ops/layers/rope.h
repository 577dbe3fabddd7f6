// Declares rotary position embedding (J. Su et al., "RoFormer"), with pairs (i, i + D/2) as in GPT-NeoX and Llama: the
// operator, and what its kernels share. No libtorch, because the CUDA kernel includes this header.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/trace.h"

struct CUstream_st;
namespace at {
class Tensor;
}
namespace c10 {
template <typename T>
class ArrayRef;
}

namespace plimsoll::ops {

/// The rotation speed of pairs: theta^(-2i/D) radians a position, stretched for long texts as in Llama 3.1. Pairs whose
/// wavelength is above original_length / low rotate `factor` times slower. Those below original_length / high are
/// unchanged; those in between change in part. factor 1: no stretching.
struct RopeFrequencies {
  double theta = 10000.0;
  double factor = 1, low = 1, high = 4, original_length = 8192;
};

/// Rotates each pair of x [B, T, H, D] by its token's position times theta^(-2i/D); the first token has `position`.
/// Returns a contiguous [B, T, H, D] of x's dtype. Angles are computed in float64 and reduced before the sine is taken,
/// so long positions lose nothing. Keeps nothing for backward, which is the inverse rotation. Operator plimsoll::rope.
/// Throws UserError if D is odd or x is not four-dimensional.
at::Tensor rope(const at::Tensor& x, int64_t position = 0, double theta = 10000.0);
at::Tensor rope(const at::Tensor& x, int64_t position, const RopeFrequencies& frequencies);

/// Rotates x [B, T, H, D] in place, forwards or back (`inverse`). Not differentiable. Operator plimsoll::rope_. Throws
/// UserError as rope(), and if the heads of x are not contiguous.
void rope_(const at::Tensor& x, int64_t position, const RopeFrequencies& frequencies, bool inverse);

/// The strides of a tensor [batch, tokens, heads, width] with contiguous heads, in elements.
struct RopeStrides {
  int64_t batch, token, head;
};

/// The arguments of a rotation of the pairs (i, i + width / 2) of x [batch, tokens, heads, width], in float32,
/// bfloat16, float16 or float64. `out` may be x itself.
struct Rope {
  const void* x;
  void* out;
  DType dtype;
  int64_t batch, tokens, heads, width;
  RopeStrides from, to;       ///< strides of x and of out
  const double* frequencies;  ///< radians per position; width / 2 values
  int64_t position;           ///< position of the first token
  bool inverse;               ///< rotate back
};

/// Returns the arguments for `x` and `out`, whose heads are contiguous.
Rope rope_arguments(const at::Tensor& x, const at::Tensor& out, const double* frequencies, int64_t position,
                    bool inverse);

/// Returns the result of rope, or of the inverse rotation (`inverse`), not filled yet. Throws UserError for arguments
/// that do not belong together. It is also the Meta kernel. `scaling`: empty, or factor, low, high and original_length.
at::Tensor rope_result(const at::Tensor& x, int64_t position, double theta, bool inverse,
                       c10::ArrayRef<double> scaling);
/// Throws UserError for arguments of rope_ that do not belong together.
void require_rope_in_place(const at::Tensor& x, double theta, c10::ArrayRef<double> scaling);

/// Returns the radians per position of each of width / 2 pairs.
std::vector<double> rope_frequencies(int64_t width, double theta, c10::ArrayRef<double> scaling);

}  // namespace plimsoll::ops

namespace plimsoll::cuda {

/// Rotates all tokens on a CUDA stream, in one launch for each 256 pairs and 65535 sequences. `args.frequencies` is in
/// host memory: it is copied into the launch's arguments.
void launch_rope(const ops::Rope& args, CUstream_st* stream);

}  // namespace plimsoll::cuda
