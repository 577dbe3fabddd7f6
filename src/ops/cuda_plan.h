// How our CUDA kernels cut their work, where their scratch depends on it: for the launchers, and for the rules by which
// a GPU's plan is made without one (workspace_cuda_rules.h). Never by the device: sums are the same on every GPU. No
// libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

/// Rows of one partial sum of rms_norm's weight gradient: enough blocks for any GPU, few partial sums.
inline int64_t cuda_norm_block_rows(int64_t rows) {
  return std::max<int64_t>(16, div_up(rows, 256));
}

/// Elements of a gradient whose squares one block adds up: kNormBlock of gradient_norm.h, at whose multiples slices of
/// gradients begin.
constexpr int64_t kCudaNormBlock = 1024;

/// Bytes of a device where parts of a sum over ranks land, of all ranks together; larger sources come in pieces.
constexpr int64_t kMaxDeviceLanding = int64_t{32} << 20;

/// Bytes of the device that reduce_scatter_ and all_reduce_ take for a source of so many bytes. Not by the number of
/// ranks, which these operators do not state: the 64 KiB are for parts that are rounded up to whole elements.
inline int64_t device_landing_bytes(int64_t source_bytes) {
  return std::min(kMaxDeviceLanding, div_up(source_bytes, 256) * 256 + (int64_t{64} << 10));
}

}  // namespace plimsoll::ops
