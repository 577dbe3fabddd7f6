// Declares the observer of the ops that an executor runs and of the copies that overlap with them, for profiles.
#pragma once

#include <chrono>
#include <cstdint>

namespace plimsoll {

using ProfileClock = std::chrono::steady_clock;

/// A span of time from begin to end, on the clock of this process.
struct TimeSpan {
  ProfileClock::time_point begin, end;
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;

  /// Reports that op `op` of the plan has run on the calling thread. A copy op has been started, or waited for.
  virtual void ran(int32_t op, const TimeSpan& span) = 0;

  /// Reports that the copy or exchange that op `op` started is done. Called by the thread that made it, before any
  /// waiting thread continues; must not throw.
  virtual void copied(int32_t op, const TimeSpan& span) = 0;
};

}  // namespace plimsoll
