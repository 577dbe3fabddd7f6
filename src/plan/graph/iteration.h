// The elements of an operand in the order in which a pointwise op goes through them, and the coarsest loop that serves
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

/// Sizes and strides in elements, outermost first, with neighbours merged wherever one stride serves both: two walks
/// visit the same elements in the same order exactly where they are equal. A single element has no dimensions.
struct Walk {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool operator==(const Walk&) const = default;

  /// One run of neighbours, or one element again and again.
  bool dense() const { return sizes.empty() || (sizes.size() == 1 && strides[0] <= 1); }
};

/// The walk through `sizes` x `strides`, taking dimensions in `order`.
Walk walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const std::vector<int>& order);

/// Strides of `view` where it is broadcast to `sizes`; nullopt: it cannot be.
std::optional<std::vector<int64_t>> broadcast_strides(const View& view, const std::vector<int64_t>& sizes);

/// The dimensions of a view from the largest stride to the smallest: the order in which it lies in memory.
std::vector<int> memory_order(const View& view);

/// Sizes of the loop with the fewest dimensions that all of the walks can be written over, each of which visits
/// `elements` in all; nullopt: their runs do not divide each other.
std::optional<std::vector<int64_t>> common_sizes(const std::vector<Walk>& walks, int64_t elements);

/// The strides of `walk` over sizes that common_sizes() gave.
std::vector<int64_t> strides_over(const Walk& walk, const std::vector<int64_t>& sizes);

}  // namespace plimsoll
