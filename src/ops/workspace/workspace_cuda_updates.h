// The scratch of the CUDA kernels of optimizers, accumulators, quantised weights and scans: workspace_cuda_rules.h's
// part of these operators.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Greatest sum of bytes, each allocation rounded up to 256, that `op` holds at a time beside
/// its operands and results, without what libtorch's matrix products take; nothing for other operators.
std::optional<int64_t> cuda_updates_workspace_bytes(const Op& op);

}  // namespace plimsoll::ops
