// Declares the division of a volume's slices into training, validation and test.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

enum class SliceUse : uint8_t { train, validation, test, unused };

/// Fractions of the slices, and the sizes of blocks and gaps.
struct SliceParts {
  double validation = 0;
  double test = 0;
  int64_t block = 6;
  int64_t gap = 2;
};

/// Divides `count` neighboring slices. Neighbors look alike, so single held-out slices would measure memorization.
/// Whole blocks of `block` slices are held out, evenly spread. The `gap` slices on either side of each block are not
/// used:
///
///     count 16, block 2, gap 1, validation and test 0.125:   t t - v v - t t t t - e e - t t
///
/// There are round(share x count / block) blocks of either kind, at least one if its share is above 0. The kinds are
/// mixed as evenly as their numbers allow, validation first.
std::vector<SliceUse> split_slices(int64_t count, const SliceParts& parts);

}  // namespace plimsoll
