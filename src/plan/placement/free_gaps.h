// The holes in a plan: bytes of the arena that nothing lives in while an op runs.
//
// A kernel whose scratch nobody knew of beforehand may have it there, instead of memory beside the arena.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Bytes [offset, offset + bytes) of the arena.
struct FreeGap {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// By op: the largest range that no live buffer and no planned workspace of the op lies in; 0 bytes if there is none.
std::vector<FreeGap> largest_free_gaps(const Plan& plan);

}  // namespace plimsoll
