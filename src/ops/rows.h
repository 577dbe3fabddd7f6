// Declares the test for a strided tensor that is a plain matrix of rows. Declares the division of rows among threads,
// and of work among blocks of our CUDA kernels. No libtorch: the kernels and the estimates of their workspace
// (ops/workspace) must agree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/host_device.h"

namespace plimsoll::ops {

using Dims = std::span<const int64_t>;

/// Returns the elements from one row to the next if [..., width] is rows at one constant stride, each of contiguous
/// elements. Returns nullopt if a kernel that needs rows must copy first.
inline std::optional<int64_t> row_stride(Dims sizes, Dims strides) {
  const size_t dims = sizes.size();
  if (dims == 0) return std::nullopt;
  if (sizes[dims - 1] > 1 && strides[dims - 1] != 1) return std::nullopt;
  std::optional<int64_t> stride, expected;
  for (size_t d = dims - 1; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (!stride)
      stride = strides[d];
    else if (strides[d] != *expected)
      return std::nullopt;
    expected = strides[d] * sizes[d];
  }
  return stride.value_or(sizes[dims - 1]);
}

/// Returns the same as at::Tensor::is_contiguous().
inline bool is_contiguous(Dims sizes, Dims strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

/// Returns true if two tensors of these sizes have the same order in memory. Strides of dimensions of one element do
/// not count.
inline bool same_order(Dims sizes, Dims a, Dims b) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && a[d] != b[d]) return false;
  return true;
}

/// Returns true if the elements fill their memory without gaps, in any order of the dimensions.
inline bool is_dense(Dims sizes, Dims strides) {
  int64_t expected = 1;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) dims.emplace_back(strides[d], sizes[d]);
  std::sort(dims.begin(), dims.end());
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

inline int64_t elements(Dims sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

PLIMSOLL_HOST_DEVICE int64_t div_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Returns the minimum number of rows for a thread to be worth starting: about 16 thousand elements.
inline int64_t row_grain(int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width));
}

/// Returns the rows of one partial sum of rms_norm's weight gradient. They do not depend on the thread count, so
/// neither does the sum.
inline int64_t norm_block_rows(int64_t rows) {
  return std::max<int64_t>(16, div_up(rows, 64));
}

// The division of our CUDA kernels' work where their scratch depends on it. Launchers use it, and so do the rules for
// planning without a GPU (ops/workspace). It never depends on the device: sums are the same on every GPU.

/// Returns the rows of one partial sum of rms_norm's weight gradient: enough blocks for any GPU, few partial sums.
inline int64_t cuda_norm_block_rows(int64_t rows) {
  return std::max<int64_t>(16, div_up(rows, 256));
}

/// Elements of a gradient whose squares one warp sums: kNormBlock of gradient_norm.h. Slices of gradients begin at
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
