// How the causal convolution is cut into blocks of positions: by its kernels and for the figures of their workspace. No
// libtorch.
#pragma once

#include <cstdint>

#include "ops/host_device.h"

namespace plimsoll::ops {

constexpr int64_t kConvTaps = 4;  ///< shorter filters begin with zeros

/// Positions that one thread takes at a time, whatever their number: sums of gradients do not depend on it.
PLIMSOLL_HOST_DEVICE int64_t conv_block(int64_t time) {
  const int64_t share = (time + 31) / 32;
  return share > 64 ? share : 64;
}

}  // namespace plimsoll::ops
