// Declares how the causal convolution is cut into blocks of positions, for its kernels and for estimates of their
// workspace. No libtorch.
#pragma once

#include <cstdint>

#include "ops/host_device.h"

namespace plimsoll::ops {

constexpr int64_t kConvTaps = 4;  ///< shorter filters are padded with zeros at the beginning

/// Returns the positions that one thread processes at a time. They do not depend on the number of threads, so neither
/// do sums of gradients.
PLIMSOLL_HOST_DEVICE int64_t conv_block(int64_t time) {
  const int64_t share = (time + 31) / 32;
  return share > 64 ? share : 64;
}

}  // namespace plimsoll::ops
