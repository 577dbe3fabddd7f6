// Declares the scratch of the CUDA kernels of layers, the loss head and the norm of gradients: the part of
// workspace_cuda_rules.h for these operators.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Returns the maximum bytes that `op` holds at a time in addition to its operands and results; nullopt for other
/// operators. Each allocation is rounded up to 256 bytes; cuBLAS's own workspace is not included. `multiprocessors`: of
/// the device; the scratch of attention's flash kernels depends on it. 0: unknown, the maximum of any device.
std::optional<int64_t> cuda_layers_workspace_bytes(const Op& op, int multiprocessors = 0);

}  // namespace plimsoll::ops
