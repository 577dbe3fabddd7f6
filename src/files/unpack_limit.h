// Declares how much memory a packed file may unpack to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "plimsoll/bytes.h"

namespace plimsoll {

/// Bytes that every packed file may unpack to: a volume of 512 x 512 x 512 float32.
constexpr int64_t kUnpackedFloor = 512 * MiB;
/// Bytes that a packed file may unpack to in addition, for each byte of its own. Deflate reaches 1032; scans, labels
/// and arrays of numbers seldom reach 16.
constexpr int64_t kUnpackedFactor = 16;

/// Floor for an array in an archive. Its values become float32 series afterwards: four times the bytes for int8.
constexpr int64_t kUnpackedArrayFloor = 128 * MiB;

/// Returns the bytes that a packed file of `file_bytes` may unpack to: `floor` + 16 x `file_bytes`. A file that is not
/// packed needs no such limit, because it has the size that it announces.
constexpr int64_t unpacked_limit(int64_t file_bytes, int64_t floor = kUnpackedFloor) {
  constexpr int64_t kMax = (std::numeric_limits<int64_t>::max() - kUnpackedFloor) / kUnpackedFactor;
  return floor + kUnpackedFactor * std::clamp<int64_t>(file_bytes, 0, kMax);
}

}  // namespace plimsoll
