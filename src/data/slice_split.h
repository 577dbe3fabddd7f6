// Which slices of a volume are trained on.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

enum class SliceUse : uint8_t { train, held_out, unused };

/// `count` neighbouring slices. Neighbours look alike, so that single slices held out would measure memory: whole
/// blocks of `block` slices are, evenly spread, and `gap` slices on either side of each are not used at all:
///
///     count 16, two blocks of 2, gap 1:   t t - h h - t t t t - h h - t t
///
/// There are round(fraction x count / block) blocks, at least one where fraction is above 0.
std::vector<SliceUse> split_slices(int64_t count, double fraction, int64_t block, int64_t gap);

}  // namespace plimsoll
