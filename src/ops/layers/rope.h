// Declares rotary position embedding (J. Su et al., "RoFormer"), with pairs (i, i + D/2) as in GPT-NeoX and Llama.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace plimsoll::ops
