// Declares how the state-space scan is cut into chunks and heads, and the scratch of one thread. The kernels and the
// estimates of their workspace share it. No libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

struct SsdShape {
  int64_t batch, time, heads, width;  ///< sizes of x [batch, time, heads, width]
  int64_t groups, state;              ///< sizes of B and C [batch, time, groups, state]
  int64_t chunk;                      ///< positions per chunk
  bool reverse;                       ///< true: run from the end to the beginning

  PLIMSOLL_HOST_DEVICE int64_t chunks() const { return div_up(time, chunk); }
  PLIMSOLL_HOST_DEVICE int64_t longest() const {
    return time < chunk ? time : chunk;
  }  ///< positions of the longest chunk
  PLIMSOLL_HOST_DEVICE int64_t heads_of_group() const { return heads / groups; }
  PLIMSOLL_HOST_DEVICE int64_t state_elements() const { return state * width; }  ///< elements of one head's state
};

/// Returns the elements of a tile in a thread's block of scratch, rounded up to a whole cache line.
inline int64_t ssd_tile(int64_t elements) {
  return div_up(elements, 16) * 16;
}

/// Returns the elements of scratch of a thread in the forward pass: the maximum of its two phases, which run one after
/// the other.
inline int64_t ssd_forward_scratch(const SsdShape& s) {
  const int64_t l = s.longest(), n = s.state, p = s.width;
  const int64_t states = ssd_tile(l * n) + ssd_tile(l * p);
  const int64_t outputs = 3 * ssd_tile(l * n) + 2 * ssd_tile(l * l) + 2 * ssd_tile(l * p);
  return std::max(states, outputs) + 2 * ssd_tile(l);
}

/// Returns the elements of scratch of a thread in the backward pass.
inline int64_t ssd_backward_scratch(const SsdShape& s) {
  const int64_t l = s.longest(), n = s.state, p = s.width;
  const int64_t states = ssd_tile(l * n) + ssd_tile(l * p);
  const int64_t gradients =
      6 * ssd_tile(l * n) + 4 * ssd_tile(l * l) + 4 * ssd_tile(l * p) + ssd_tile(n * p) + 2 * ssd_tile(l);
  return std::max(states, gradients) + 2 * ssd_tile(l);
}

/// Returns the elements of the partial sums of the gradients of A and D: one share for every chunk of every sequence.
inline int64_t ssd_partial_sums(const SsdShape& s) {
  return 2 * s.batch * s.chunks() * s.heads;
}

}  // namespace plimsoll::ops
