// Counts the searches of this process, so that a test can tell that a step is searched once.
#pragma once

#include <cstdint>

namespace plimsoll {

/// Returns how many Planners this process has made. Safe from any thread.
int64_t searches_made();

}  // namespace plimsoll
