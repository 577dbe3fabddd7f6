// Computes the Hilbert curve in any number of dimensions (J. Skilling, "Programming the Hilbert curve", AIP Conference
// Proceedings 707, 2004): points near each other on it are near each other in space.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll {

/// Maximum number of coordinates x bits of an index.
constexpr int64_t kMaxHilbertBits = 64;

/// Returns the position of the point on the curve through [0, 2^bits)^n, from 0 to 2^(n x bits) - 1. n is point.size();
/// n x bits is at most kMaxHilbertBits and bits at most 31. `point` is overwritten.
inline uint64_t hilbert_index(std::span<uint32_t> point, int64_t bits) {
  const uint32_t top = uint32_t{1} << (bits - 1);
  // Undo the rotations and reflections of the sub-cubes, from the largest down.
  for (uint32_t q = top; q > 1; q >>= 1) {
    const uint32_t below = q - 1;
    for (uint32_t& x : point) {
      if (x & q) {
        point[0] ^= below;
      } else {
        const uint32_t swapped = (point[0] ^ x) & below;
        point[0] ^= swapped;
        x ^= swapped;
      }
    }
  }
  for (size_t i = 1; i < point.size(); ++i) point[i] ^= point[i - 1];  // Gray code
  uint32_t flipped = 0;
  for (uint32_t q = top; q > 1; q >>= 1)
    if (point.back() & q) flipped ^= q - 1;
  uint64_t index = 0;
  for (int64_t bit = bits; bit-- > 0;)
    for (uint32_t x : point) index = index << 1 | (((x ^ flipped) >> bit) & 1);
  return index;
}

}  // namespace plimsoll
