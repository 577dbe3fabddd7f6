// Places buffers of known lifetime into one arena (dynamic storage allocation, offline).
//
//     offset
//       ^   +---------+
//       |   |   c     |            each buffer is a rectangle: [lower, upper) in time,
//       |   +----+----+---+        [offset, offset + size) in the arena; no two overlap.
//       |   | a  |   b    |
//       +---+----+--------+--> time
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// A buffer that is live in the half-open interval [lower, upper) of some integer time and takes `size` bytes.
struct PlacementItem {
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t size = 0;
};

/// Offsets of the items in one arena.
struct Placement {
  std::vector<int64_t> offsets;  ///< bytes from the arena's start, in the order of the items
  int64_t height = 0;            ///< bytes of arena used: the greatest offset + size
  int64_t lower_bound = 0;       ///< the greatest sum of live bytes: no placement is lower
};

/// Options of the placement search.
struct PlacementOptions {
  int64_t alignment = 1;    ///< offsets are multiples of it; sizes count rounded up to it
  int64_t capacity = 0;     ///< stop as soon as the height is at most this; 0: aim at the lower bound
  int64_t effort = 100000;  ///< how many single-buffer placements (about a microsecond each) the improvement search may
                            ///< spend beyond the first heuristics; counted, not timed, so that a plan is the same on
                            ///< every machine; without a capacity it is not spent on a waste of 0.1 % or less
  TreeSearchParameters tree_search;  ///< limits of the improvement search
};

/// A placement with no overlap, and as low as the effort allows; deterministic. Items of size 0 or with an empty
/// lifetime get offset 0. Throws UserError for a negative size, an alignment below 1 and sizes that sum to more than
/// 2^62 bytes; InternalError never.
Placement place(const std::vector<PlacementItem>& items, const PlacementOptions& options = {});

/// The greatest sum of live sizes over all times, sizes rounded up to `alignment`. Throws UserError for a negative
/// size, an alignment below 1 and a sum above 2^62 bytes.
int64_t live_bytes_bound(const std::vector<PlacementItem>& items, int64_t alignment = 1);

/// An independent, deliberately naive check: empty when no two items that are live together overlap, none ends above
/// the height, every offset is a multiple of the alignment and at least 0; otherwise one sentence that names the first
/// item or pair at fault.
std::string check_placement(const std::vector<PlacementItem>& items, const Placement& placement, int64_t alignment = 1);

}  // namespace plimsoll
