// Declares how far back in a step an op's operands were last touched, which decides the cache that holds them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Distance of an operand that is in no cache: it was never touched, or is in another memory.
constexpr int64_t kUntouched = std::numeric_limits<int64_t>::max();

/// Returns for each op of the plan, and for each of its operands in the order of for_each_view(), the bytes that a
/// repeated step touches from the start of the last op that touched the same memory to the start of this one. The
/// memory counts, not the buffer: a new buffer often takes the place of one that was just used. For an operand of more
/// than one page it is the median over its pages. Ops that initialize have none.
std::vector<std::vector<int64_t>> operand_distances(const Plan& plan);

}  // namespace plimsoll
