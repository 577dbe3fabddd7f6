// Declares the free gaps of a plan: ranges of the arena without a live buffer while an op runs.
//
// A kernel whose scratch was not planned may use a gap instead of memory outside the arena.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// A byte range of the arena, [offset, offset + bytes).
struct FreeGap {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Returns for each op the largest range without a live buffer or planned workspace of the op; 0 bytes if there is
/// none.
std::vector<FreeGap> largest_free_gaps(const Plan& plan);

}  // namespace plimsoll
