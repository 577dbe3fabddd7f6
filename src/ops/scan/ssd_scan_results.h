// Declares the checks and results of the state-space scan, for the kernels of every device, and the layout in which
// kernels need its operands.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/scan/ssd_kernels_cpu.h"

namespace plimsoll::ops {

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
