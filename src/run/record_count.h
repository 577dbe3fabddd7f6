// Counts the recordings of this process, so that a test can tell that a step is recorded once.
#pragma once

#include <cstdint>

namespace plimsoll {

/// Returns how often this process has called record_step(). Safe from any thread.
int64_t recordings_made();

}  // namespace plimsoll
