// Limits of what a plan measures on this machine: memory and time.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "plimsoll/bytes.h"

namespace plimsoll {

struct MeasureLimits {
  int64_t bytes = 256 * MiB;  ///< of a measurement's operands and results; one measurement runs at a time
  double seconds = 3;         ///< of all measurements together: processor time of the thread that plans
};

/// The memory and the time that the measurements of one command may take. Threads may share an allowance. Processor
/// time counts, so that a plan does not depend on what other programs do.
class MeasureAllowance {
 public:
  /// `now`: seconds of a clock; empty: the processor time of the calling thread.
  explicit MeasureAllowance(const MeasureLimits& limits = {}, std::function<double()> now = {});

  const MeasureLimits& limits() const { return limits_; }
  /// Seconds that are not spent yet; at least 0.
  double seconds_left() const;
  /// Returns whether a measurement of at most `bytes` that is expected to take `seconds` keeps the limits.
  bool allows(int64_t bytes, double seconds) const { return bytes <= limits_.bytes && seconds <= seconds_left(); }

  /// Charges its lifetime to an allowance; nullptr: to none. It is destroyed on the thread that made it.
  class Charge {
   public:
    explicit Charge(MeasureAllowance* allowance);
    ~Charge();
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

   private:
    MeasureAllowance* allowance_;
    double begin_;
  };

 private:
  MeasureLimits limits_;
  std::function<double()> now_;
  mutable std::mutex mutex_;
  double spent_ = 0;
};

}  // namespace plimsoll
