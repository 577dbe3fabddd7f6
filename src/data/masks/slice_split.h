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

/// Neighboring slices [begin, end) that are held out together.
struct SliceBlock {
  int64_t begin = 0, end = 0;
  SliceUse use = SliceUse::validation;
};

/// Returns the held-out blocks of `count` neighboring slices. Neighbors look alike, so single held-out slices would
/// measure memorization. Blocks of `block` slices are evenly spread:
///
///     count 16, block 2, gap 1, validation and test 0.125:   t t - v v - t t t t - e e - t t
///
/// There are round(share x count / block) blocks of either kind, at least one if its share is above 0. The kinds are
/// mixed as evenly as their numbers allow, validation first.
std::vector<SliceBlock> spread_blocks(int64_t count, const SliceParts& parts);

/// Returns the use of each of `count` slices. The `gap` slices on either side of each block are not used.
std::vector<SliceUse> uses_of_slices(int64_t count, const std::vector<SliceBlock>& blocks, int64_t gap);

/// A volume's slices for cover_structures().
struct SplitVolume {
  std::vector<std::vector<int32_t>> structures;  ///< structures in each slice, each once
  std::vector<SliceBlock> blocks;
};

/// Moves blocks, if evenly spread blocks leave a part without a structure: one that only held-out slices show, or that
/// no held-out slice shows. A block moves only if the parts then lack fewer structures, first those of training, and by
/// the least distance. Blocks keep their lengths and stay `gap` slices apart. Structures for which no block has a
/// better place stay as they are.
void cover_structures(std::vector<SplitVolume>& volumes, int64_t gap);

}  // namespace plimsoll
