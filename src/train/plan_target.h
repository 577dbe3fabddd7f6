// How much of the machine's memory a budget takes where nobody states one.
#pragma once

#include <cstdint>

namespace plimsoll {

/// The budget for `available` bytes: all but 10 %, which are for what is not in the arena - the program, the data's
/// batches, the page cache of its text.
int64_t less_margin(int64_t available);

}  // namespace plimsoll
