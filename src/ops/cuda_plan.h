// Declares how our CUDA kernels cut their work where their scratch depends on it. Launchers use it, and so do the rules
// for planning without a GPU (ops/workspace). The cut never depends on the device: sums are the same on every
// GPU. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

/// Returns the rows of one partial sum of rms_norm's weight gradient: enough blocks for any GPU, few partial sums.
inline int64_t cuda_norm_block_rows(int64_t rows) {
  return std::max<int64_t>(16, div_up(rows, 256));
}

/// Elements of a gradient whose squares one block sums: kNormBlock of gradient_norm.h. Slices of gradients begin at
/// multiples of it.
constexpr int64_t kCudaNormBlock = 1024;

/// Device bytes that receive parts of a sum over ranks, for all ranks together; larger sources are sent in pieces.
constexpr int64_t kMaxDeviceLanding = int64_t{32} << 20;

/// Returns the device bytes that reduce_scatter_ and all_reduce_ allocate for a source of `source_bytes`. The operators
/// do not state the number of ranks, so the result does not depend on it. The 64 KiB cover parts that are rounded up to
/// whole elements.
inline int64_t device_landing_bytes(int64_t source_bytes) {
  return std::min(kMaxDeviceLanding, div_up(source_bytes, 256) * 256 + (int64_t{64} << 10));
}

}  // namespace plimsoll::ops
