// Declares the scan of a selective state-space model with one decay a head (Mamba-2), in chunks.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/scan/ssd_kernels_cpu.h"

namespace plimsoll::ops {

/// Computes, for every head, with a state H [N, P] that is 0 before the first position (T. Dao and A. Gu 2024,
/// "Transformers are SSMs: generalized models and efficient algorithms through structured state space duality"):
///
///     H_t = exp(dt_t A) H_{t-1} + dt_t B_t^T x_t        y_t = C_t H_t + D x_t
///
/// x [batch, time, heads, P], dt [batch, time, heads] (at least 0), A [heads] (below 0), B and C [batch, time, groups,
/// N], whose groups divide the heads, D [heads]. `reverse` runs from the last position to the first, without a flipped
/// copy of anything. Matmuls process `chunk` positions at a time: results differ by rounding only.
///
/// x, B and C are of one floating type; dt, A and D are float32 (float64 if x is). Under autocast x, B and C are cast.
/// All sums are in float32. Returns y [batch, time, heads, P], contiguous, of x's type. For backward it keeps only its
/// operands. The states between chunks, T / chunk x heads x N x P float32, are results of the operators that live as
/// long as they run. Operators plimsoll::ssd_scan and plimsoll::ssd_scan_backward. Throws UserError if shapes or types
/// do not agree.
at::Tensor ssd_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& c, const at::Tensor& d, int64_t chunk, bool reverse = false);

/// The results y and states.
using SsdResults = std::tuple<at::Tensor, at::Tensor>;
/// The gradients of x, dt, A, B, C and D; then the states and their gradients.
using SsdGradientResults =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Both functions throw UserError if the tensors do not belong together, and access no data.
SsdResults empty_ssd_scan(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& c, const at::Tensor& d, int64_t chunk, bool reverse);
SsdGradientResults empty_ssd_scan_gradients(const at::Tensor& grad_y, const at::Tensor& x, const at::Tensor& dt,
                                            const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                            const at::Tensor& d, int64_t chunk, bool reverse);

/// The operands with a contiguous last dimension; holds copies of tensors that had to be copied.
struct PreparedSsd {
  PreparedSsd(const at::Tensor& x, const at::Tensor& dt, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
              const at::Tensor& d, int64_t chunk, bool reverse);
  at::Tensor x, b, c, a, d;
  SsdOperands operands;
};
/// Returns the tensor [batch, time, heads, n] itself, or a copy with a contiguous last dimension.
at::Tensor ssd_inner_contiguous(const at::Tensor& tensor);
SsdTensor ssd_strided(const at::Tensor& tensor);

}  // namespace plimsoll::ops
