// Reads the steady clock in seconds.
#pragma once

#include <chrono>

namespace plimsoll::cli {

/// Returns the seconds since a fixed moment in the past, the same for the whole process.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace plimsoll::cli
