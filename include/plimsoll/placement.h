// Declares the placement of buffers with known lifetimes in one arena (offline dynamic storage allocation).
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

#include "plimsoll/planner.h"

namespace plimsoll {

/// A buffer that is live in the half-open interval [lower, upper) of an integer time, with `size` bytes.
struct PlacementItem {
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t size = 0;
};

/// A set of offsets for items in one arena.
struct Placement {
  std::vector<int64_t> offsets;  ///< bytes from the arena's start, in the order of the items
  int64_t height = 0;            ///< bytes of arena used: the largest offset + size
  int64_t lower_bound = 0;       ///< largest sum of live bytes: no placement is lower
};

/// Options of the placement search.
struct PlacementOptions {
  int64_t alignment = 1;    ///< offsets are multiples of it, and sizes are rounded up to it
  int64_t capacity = 0;     ///< height in bytes at which the search stops; 0: the target is the lower bound
  int64_t effort = 100000;  ///< single-buffer placements (about a microsecond each), at most, in the improvement search
                            ///< after the first heuristics. They are counted, not timed, so that every machine finds
                            ///< the same plan. Without a capacity nothing is spent on a waste of 0.1 % or less
  TreeSearchParameters tree_search;  ///< limits of the improvement search
};

/// Returns a placement without overlap, as low as the effort allows. Deterministic. Items of size 0 or with an empty
/// lifetime get offset 0. Throws UserError for a negative size, an alignment below 1 and sizes that sum to more than
/// 2^62 bytes. Never throws InternalError.
Placement place(const std::vector<PlacementItem>& items, const PlacementOptions& options = {});

/// Returns the largest sum of live sizes over all times, with sizes rounded up to `alignment`. Throws UserError for a
/// negative size, an alignment below 1 and a sum above 2^62 bytes.
int64_t live_bytes_bound(const std::vector<PlacementItem>& items, int64_t alignment = 1);

/// Returns the first fault of a placement as one sentence that names the item or pair; empty: it is sound. Sound means:
/// no two items that are live together overlap, none ends above the height, and every offset is at least 0 and a
/// multiple of the alignment. The check is independent of place() and deliberately simple.
std::string check_placement(const std::vector<PlacementItem>& items, const Placement& placement, int64_t alignment = 1);

}  // namespace plimsoll
