// Scratch of the CUDA kernels, by rule: so that a plan for a GPU can be made on a machine without one.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Bytes that the op's CUDA kernel takes beside its results; nullopt: not known, the first run tells.
/// `multiprocessors`: of the device; 0: not known.
std::optional<int64_t> cuda_workspace_bytes(const Op& op, int multiprocessors = 0);

}  // namespace plimsoll::ops
