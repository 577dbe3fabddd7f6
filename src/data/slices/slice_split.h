// Which slices of a volume are trained on.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

enum class SliceUse : uint8_t { train, validation, test, unused };

/// Shares of the slices, and how they are taken.
struct SliceParts {
  double validation = 0;
  double test = 0;
  int64_t block = 6;
  int64_t gap = 2;
};

/// `count` neighbouring slices. Neighbours look alike, so that single slices held out would measure memory: whole
/// blocks of `block` slices are, evenly spread, and `gap` slices on either side of each are not used at all:
///
///     count 16, block 2, gap 1, validation and test 0.125:   t t - v v - t t t t - e e - t t
///
/// There are round(share x count / block) blocks of either kind, at least one where its share is above 0, mixed as
/// evenly as their numbers allow, validation first.
std::vector<SliceUse> split_slices(int64_t count, const SliceParts& parts);

}  // namespace plimsoll
