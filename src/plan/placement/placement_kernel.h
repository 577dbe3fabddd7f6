// Declares the reduction of a placement problem to its kernels, the parts that need a search.
//
//     +-----------------------+      A box that is live together with every other box of its group can be at the
//     |  d  |  e  |     g     |      bottom without loss (a: what is below it may as well be above it). The rest
//     |-----+--+--+-----+-----|      splits at times that no box crosses (d, b, e | g, f); each part is reduced again.
//     |    b   |        |  f  |      A part that can neither be peeled nor split is a kernel.
//     +-----------------------+
//     |           a           |
//     +-----------------------+
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/placement.h"

namespace plimsoll::placing {

/// A buffer inside a kernel, live in sections [first, last) of the kernel's time axis.
struct Box {
  int32_t first = 0;
  int32_t last = 0;
  int64_t size = 0;  ///< size in units of the alignment
};

/// A set of boxes to place above `base`, independent of all other kernels. Time is cut into sections, one for each
/// maximal set of boxes that are live together. Two boxes are live at the same time exactly if they share a section.
struct Kernel {
  std::vector<Box> boxes;
  std::vector<int32_t> items;  ///< index in the caller's list, by box
  std::vector<int64_t> load;   ///< sum of the boxes' sizes, by section
  int64_t base = 0;            ///< units below the kernel, used by peeled boxes
  int64_t lower_bound = 0;     ///< largest load: no placement is lower
};

/// A result of peeling and splitting, and the remaining kernels. All amounts are in units of the alignment.
struct Reduction {
  std::vector<int64_t> offsets;  ///< offsets in the order of the items; 0 for boxes in kernels
  int64_t height = 0;            ///< largest top of a placed box
  int64_t lower_bound = 0;       ///< largest sum of live sizes
  std::vector<Kernel> kernels;
};

/// Returns the reduction of a problem. `sizes`: those of `items` in units of the alignment; their sum is below 2^62.
/// Items of size 0 or with an empty lifetime are ignored.
Reduction reduce(const std::vector<PlacementItem>& items, const std::vector<int64_t>& sizes);

/// Returns the sizes of `items` in units of `alignment`, rounded up. Throws UserError for a negative size, an alignment
/// below 1 and sizes with a sum above 2^62 bytes. Below that no sum of sizes or offsets overflows.
std::vector<int64_t> aligned_sizes(const std::vector<PlacementItem>& items, int64_t alignment);

}  // namespace plimsoll::placing
