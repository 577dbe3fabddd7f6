// Declares the checks and results of the accumulators' operators, for the kernels of every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/arithmetic/formats.h"

namespace plimsoll::ops {

/// Returns the accumulator's format. Throws UserError if the tensors do not belong together. `random`: for the overload
/// that rounds stochastically.
Format check_accumulator(const at::Tensor& accumulator, const std::optional<at::Tensor>& scales,
                         const at::Tensor& gradient, bool random);

at::Tensor empty_block_norm(const at::Tensor& codes, const at::Tensor& scales);
at::Tensor empty_unpacked(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& like);

/// Returns the unfilled result of nesterov_momentum_, after checking its operands.
at::Tensor empty_nesterov_momentum(const at::Tensor& gradient, const std::optional<at::Tensor>& gradient_scales,
                                   const at::Tensor& momentum, const std::optional<at::Tensor>& momentum_scales,
                                   const at::Tensor& grad_scale, const at::Tensor& skipped, at::ScalarType dtype);

}  // namespace plimsoll::ops
