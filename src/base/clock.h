// Implements clocks in seconds: the steady clock, and a thread's processor time.
#pragma once

#include <time.h>

#include <chrono>

namespace plimsoll {

/// Returns the seconds since a fixed moment in the past, the same for the whole process.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the seconds of `clock` (clock_gettime).
inline double clock_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Returns the seconds that this thread has had of a processor. Other work on the machine does not count.
inline double thread_seconds() {
  return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace plimsoll
