// Defines which probabilities of attention dropout drops. The CPU's and the CUDA kernels share the arithmetic, so that
// both drop the same elements.
//
// The bits of an element follow from the seed of the call, its head, its query and its key alone: forward, backward and
// a recomputed forward drop the same elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/hash.h"
#include "ops/host_device.h"

namespace plimsoll::ops {

struct DropoutRule {
  uint32_t threshold = 0;  ///< an element whose 32 bits are below this is dropped; 0: no dropout
  double factor = 1;       ///< factor of an element that is kept
};

/// Returns the rule that drops an element with probability `p` < 1.
inline DropoutRule dropout_rule(double p) {
  if (p <= 0) return {};
  // A probability below 2^-32 counts as 2^-32, and one that rounds to 1 as 1 - 2^-32.
  const double words = std::clamp(std::round(p * 0x1p32), 1.0, 0x1p32 - 1);
  return {.threshold = static_cast<uint32_t>(words), .factor = 1 / (1 - p)};
}

/// Returns the seed of head `head` of the batch's heads.
PLIMSOLL_HOST_DEVICE uint64_t head_seed(uint64_t seed, int64_t head) {
  return splitmix64(splitmix64(seed) ^ static_cast<uint64_t>(head));
}

/// Returns the bits of a query of a head: element_bits() gets the lower and the upper half.
PLIMSOLL_HOST_DEVICE uint64_t query_bits(uint64_t seed_of_head, int64_t query) {
  return splitmix64(seed_of_head ^ static_cast<uint64_t>(query));
}

/// Returns the bits of the key `key` for a query, or for a vector of queries: MurmurHash3's finalizer of the key and
/// the lower half of the query's bits, and once more with the upper half.
template <typename Words>
PLIMSOLL_HOST_DEVICE Words element_bits(const Words& lower, const Words& upper, uint32_t key) {
  Words x = lower + key * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  x = (x ^ (x >> 16) ^ upper) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace plimsoll::ops
