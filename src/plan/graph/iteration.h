// Declares walks: the order in which a pointwise op visits the elements of an operand, and the coarsest loop over
// several operands.
//
//     [4, 6] of strides [6, 1]   ->  [24] by [1]        dense: one run
//     [4, 6] of strides [8, 1]   ->  [4, 6] by [8, 1]   rows of a wider matrix
//     [6] broadcast to [4, 6]    ->  [4, 6] by [0, 1]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// A list of sizes and strides in elements, outermost first. Adjacent dimensions are merged if one stride serves both:
/// two walks visit the same elements in the same order exactly if they are equal. A single element has no dimensions.
struct Walk {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool operator==(const Walk&) const = default;

  /// Returns whether the walk is one contiguous run, or one element repeated.
  bool dense() const { return sizes.empty() || (sizes.size() == 1 && strides[0] <= 1); }
};

/// Returns the walk through `sizes` x `strides` with dimensions in `order`.
Walk walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const std::vector<int>& order);

/// Returns the strides of `view` broadcast to `sizes`; nullopt: it does not broadcast.
std::optional<std::vector<int64_t>> broadcast_strides(const View& view, const std::vector<int64_t>& sizes);

/// Returns the dimensions of a view from the largest stride to the smallest, which is their order in memory.
std::vector<int> memory_order(const View& view);

/// Returns the sizes of the loop with the fewest dimensions that can express all walks, each of which visits `elements`
/// elements. nullopt: their runs do not divide each other.
std::optional<std::vector<int64_t>> common_sizes(const std::vector<Walk>& walks, int64_t elements);

/// Returns the strides of `walk` over sizes from common_sizes().
std::vector<int64_t> strides_over(const Walk& walk, const std::vector<int64_t>& sizes);

}  // namespace plimsoll
