// Cuts a placement problem down to what is hard about it.
//
//     +-----------------------+      A box that is live together with every other box of its group can lie at the
//     |  d  |  e  |     g     |      bottom without loss (a: whatever lies below it may as well lie above). What is
//     |-----+--+--+-----+-----|      left falls apart where nothing crosses (d, b, e | g, f): each part starts over.
//     |    b   |        |  f  |      A part in which nothing can be peeled off and nothing falls apart is a kernel.
//     +-----------------------+
//     |           a           |
//     +-----------------------+
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/placement.h"

namespace plimsoll::placing {

/// A buffer inside a kernel: live in sections [first, last) of the kernel's time axis.
struct Box {
  int32_t first = 0;
  int32_t last = 0;
  int64_t size = 0;  ///< in units of the alignment
};

/// Boxes to be placed above `base`, apart from all other kernels. Time is cut into sections, one for each greatest set
/// of boxes that are live together: two boxes meet in time exactly when they share a section.
struct Kernel {
  std::vector<Box> boxes;
  std::vector<int32_t> items;  ///< for each box, its index in the caller's list
  std::vector<int64_t> load;   ///< for each section, the sum of its boxes' sizes
  int64_t base = 0;            ///< units beneath, taken by boxes that were peeled off
  int64_t bound = 0;           ///< the greatest load: no placement is lower
};

/// What peeling and splitting settled, and the kernels that remain. All amounts in units of the alignment.
struct Reduction {
  std::vector<int64_t> offsets;  ///< in the order of the items; those of boxes in kernels are still 0
  int64_t height = 0;            ///< the greatest top of a settled box
  int64_t lower_bound = 0;       ///< the greatest sum of live sizes
  std::vector<Kernel> kernels;
};

/// `sizes`: those of `items` in units of the alignment; their sum fits in 62 bits. Items of size 0 or with an empty
/// lifetime are left out.
Reduction reduce(const std::vector<PlacementItem>& items, const std::vector<int64_t>& sizes);

/// The sizes of `items` in units of `alignment`, rounded up. Throws UserError for a negative size, an alignment below
/// 1 and for sizes whose sum passes 2^62 bytes: below that no sum of sizes or offsets overflows.
std::vector<int64_t> aligned_sizes(const std::vector<PlacementItem>& items, int64_t alignment);

}  // namespace plimsoll::placing
