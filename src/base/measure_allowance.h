// Declares the limits of measurements for a plan on this machine: memory and time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "plimsoll/bytes.h"

namespace plimsoll {

struct MeasureLimits {
  int64_t bytes = 256 * MiB;  ///< operands, results and scratch of one measurement; one measurement runs at a time
  double seconds = 3;         ///< limit for all measurements together
};

/// Clocks of measurements, in seconds; an empty one is the machine's.
struct MeasureClocks {
  std::function<double()> processor;  ///< processor time of the calling thread
  std::function<double()> wall;       ///< a steady clock
};

/// The memory and the time that the measurements of one command may take. Threads may share an allowance. A measurement
/// is charged the larger of its processor time and its wall time: on a busy machine fewer measurements are made.
class MeasureAllowance {
 public:
  explicit MeasureAllowance(const MeasureLimits& limits = {}, MeasureClocks clocks = {});

  const MeasureLimits& limits() const { return limits_; }
  /// Returns the seconds that are not spent yet; at least 0.
  double seconds_left() const;
  /// Returns true if a measurement of at most `bytes` that is expected to take `seconds` keeps the limits.
  bool allows(int64_t bytes, double seconds) const { return bytes <= limits_.bytes && seconds <= seconds_left(); }

  /// A charge of its lifetime to an allowance; nullptr: to none. It must be destroyed on the thread that made it.
  class Charge {
   public:
    explicit Charge(MeasureAllowance* allowance);
    ~Charge();
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;
    /// Returns the seconds that it would charge now; 0 without an allowance.
    double seconds() const;

   private:
    MeasureAllowance* allowance_;
    double processor_ = 0, wall_ = 0;  // at the beginning
  };

  /// Keeps an estimate that replaces a measurement that was not allowed. Another allowance does not have it, so that a
  /// later command measures.
  void keep_estimate(const std::string& key, int64_t bytes);
  std::optional<int64_t> estimate(const std::string& key) const;

 private:
  MeasureLimits limits_;
  MeasureClocks clocks_;
  mutable std::mutex mutex_;
  double spent_ = 0;
  std::map<std::string, int64_t> estimates_;
};

}  // namespace plimsoll
