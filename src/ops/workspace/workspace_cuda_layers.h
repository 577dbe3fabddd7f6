// The scratch of the CUDA kernels of layers, the loss head and the norm of gradients: workspace_cuda_rules.h's part of
// these operators.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Greatest sum of bytes, each allocation rounded up to 256, that `op` holds at a time beside its operands and results,
/// without what cuBLAS takes for itself; nothing for other operators. `multiprocessors`: of the device, on which the
/// scratch of attention's flash kernels depends; 0: not known, the most that any would take.
std::optional<int64_t> cuda_layers_workspace_bytes(const Op& op, int multiprocessors = 0);

}  // namespace plimsoll::ops
