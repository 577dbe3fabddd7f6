// Declares a counter of the searches of this process, with which tests check that a step is searched once.
#pragma once

#include <cstdint>

namespace plimsoll {

/// Returns the number of Planners that this process has made. Safe from any thread.
int64_t searches_made();

}  // namespace plimsoll
