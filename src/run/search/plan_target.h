// Computes the default budget from the machine's memory.
#pragma once

#include <cstdint>

namespace plimsoll {

/// Returns the budget for `available` bytes: all but 10 %, which is for memory outside the arena: the program, the
/// data's batches, the page cache of its text.
int64_t less_margin(int64_t available);

}  // namespace plimsoll
