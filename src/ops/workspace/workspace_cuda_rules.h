// Declares rules for the scratch of the CUDA kernels, so that a plan for a GPU can be made on a machine without one.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Returns the bytes that the op's CUDA kernel allocates in addition to its results; nullopt: unknown, the first run
/// measures it. `multiprocessors`: of the device; 0: unknown.
std::optional<int64_t> cuda_workspace_bytes(const Op& op, int multiprocessors = 0);

}  // namespace plimsoll::ops
