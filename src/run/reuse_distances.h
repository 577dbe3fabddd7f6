// Declares reuse_distances(): how many bytes a step touches between two uses of an operand, which decides the cache
// that holds it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Reuse distance of an operand without elements, of one in host memory or on disk, and of one whose pages no op of the
/// step touches (an evaluation's).
constexpr int64_t kNotCached = std::numeric_limits<int64_t>::max();

/// Returns the reuse distance, in bytes, of each operand of each op of the plan, operands in the order of
/// for_each_view(). It is the number of bytes that ops of a repeated step touch from the start of the last op that
/// touched the same page of 4 KiB to the start of this op. Bytes count again for each op that touches them, unlike in
/// the usual reuse distance, so it is an upper bound of that. For an operand of several pages it is the median of at
/// most 64 of them. The place in the arena counts, not the buffer: a new buffer often takes the place of one that was
/// just used. Each segment of the step counts once. Ops that initialize have no distances.
std::vector<std::vector<int64_t>> reuse_distances(const Plan& plan);

}  // namespace plimsoll
