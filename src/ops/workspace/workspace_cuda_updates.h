// Declares the scratch of the CUDA kernels of optimizers, accumulators, quantised weights and scans: the part of
// workspace_cuda_rules.h for these operators.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Returns the maximum bytes that `op` holds at a time in addition to its operands and results; nullopt for other
/// operators. Each allocation is rounded up to 256 bytes; the scratch of libtorch's matmuls is not included.
std::optional<int64_t> cuda_updates_workspace_bytes(const Op& op);

}  // namespace plimsoll::ops
