// Who hears of each op that an executor runs and of each copy beside it: profiles.
#pragma once

#include <chrono>
#include <cstdint>

namespace plimsoll {

using ProfileClock = std::chrono::steady_clock;

/// From begin to end, on the clock of this process.
struct TimeSpan {
  ProfileClock::time_point begin, end;
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;

  /// Op `op` of the plan has run on the thread that calls this; of a copy: it was started, or waited for.
  virtual void ran(int32_t op, const TimeSpan& span) = 0;

  /// The copy or the exchange that op `op` started is made. Called by the thread that made it, before who waits for it
  /// goes on; must not throw.
  virtual void copied(int32_t op, const TimeSpan& span) = 0;
};

}  // namespace plimsoll
