// Declares the machine whose times measurements read: the one that runs the program, or a stand-in of a test.
// Declares clocks in seconds, and timing that is repeated until two tries agree.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "plimsoll/bytes.h"

namespace plimsoll {

/// Processor time of a machine so far.
struct OtherWork {
  double seconds = 0;  ///< spent on other processes, and taken by other virtual machines, over all processors
  int processors = 1;  ///< processors that are online
};

/// Returns what /proc/stat and getrusage(2) say (proc(5)); nullopt if the system does not say it. In a container it is
/// that of the whole machine.
std::optional<OtherWork> other_work();

/// Returns the number of busy processors that threads of this process had to share with other programs: those of
/// others, less the ones that `threads` threads leave free. 0: none.
double shared_processors(const OtherWork& before, const OtherWork& after, double seconds, int threads);

/// A piece of work whose seconds are measured. A stand-in computes the seconds from these figures.
struct MeasuredWork {
  std::string name;  ///< kernel and dtype: "libtorch matmul float32", or an op: "aten::mm"
  double flops = 0;  ///< multiplications and additions
  double bytes = 0;  ///< bytes read and written
};

/// The clocks of this machine. Choices of kernels, rates, times of ops and the limits of measurements depend on no
/// other clock, so that a test with a stand-in has the same choices and plans on every machine and under any load.
/// A stand-in is safe from any thread, as this class is.
class MeasuringMachine {
 public:
  MeasuringMachine() = default;
  virtual ~MeasuringMachine() = default;
  MeasuringMachine(const MeasuringMachine&) = delete;
  MeasuringMachine& operator=(const MeasuringMachine&) = delete;

  /// Returns the seconds of a steady clock.
  virtual double now();
  /// Waits for this many seconds.
  virtual void wait(double seconds);
  /// Runs the work and returns its seconds, at least 1e-9.
  virtual double time(const MeasuredWork& work, const std::function<void()>& run);
  /// Returns the seconds of a work that has just been done, and took `seconds` on the clock of this process.
  virtual double done(const MeasuredWork& work, double seconds) { return seconds; }
  /// Returns the work of other programs so far.
  virtual std::optional<OtherWork> other_work();
};

/// Returns the machine of this process.
MeasuringMachine& measuring_machine();

/// A scope, for tests, in which measurements read a stand-in. Not thread-safe: no measurement may run at its ends.
class MeasuringMachineScope {
 public:
  explicit MeasuringMachineScope(MeasuringMachine& machine);
  ~MeasuringMachineScope();
  MeasuringMachineScope(const MeasuringMachineScope&) = delete;
  MeasuringMachineScope& operator=(const MeasuringMachineScope&) = delete;

 private:
  MeasuringMachine* before_;
};

struct MeasureLimits {
  int64_t bytes = 256 * MiB;  ///< operands, results and scratch of one measurement; one measurement runs at a time
  double seconds = 3;         ///< limit for all measurements together
};

/// Returns "planning measures for at most 3 s and 256 MiB".
std::string describe_limits(const MeasureLimits& limits);

/// The memory and the time that the measurements of one command may take. Threads may share an allowance. A measurement
/// is charged the time that passes on the clock of measuring_machine(): on a busy machine fewer measurements are made.
class MeasureAllowance {
 public:
  explicit MeasureAllowance(const MeasureLimits& limits = {}) : limits_(limits) {}

  const MeasureLimits& limits() const { return limits_; }
  /// Returns the seconds that are not spent yet; at least 0.
  double seconds_left() const;
  /// Returns true if a measurement of at most `bytes` that is expected to take `seconds` keeps the limits.
  bool allows(int64_t bytes, double seconds) const { return bytes <= limits_.bytes && seconds <= seconds_left(); }

  /// A charge of its lifetime to an allowance; nullptr: to none.
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
    double begin_ = 0;  // seconds of the clock
  };

  /// Keeps an estimate that replaces a measurement that was not allowed. Another allowance does not have it, so that a
  /// later command measures.
  void keep_estimate(const std::string& key, int64_t bytes);
  std::optional<int64_t> estimate(const std::string& key) const;

 private:
  MeasureLimits limits_;
  mutable std::mutex mutex_;
  double spent_ = 0;
  std::map<std::string, int64_t> estimates_;
};

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

/// A set of tries of one timing, in any unit. Other work can only make a try too long, so the two shortest are accepted
/// when they agree. Consecutive tries may be long together; the caller spreads them over time.
class StableTiming {
 public:
  /// Largest relative excess of the second shortest try over the shortest.
  static constexpr double kTolerance = 0.15;

  void add(double value) {
    if (value < shortest_) {
      second_shortest_ = shortest_;
      shortest_ = value;
    } else {
      second_shortest_ = std::min(second_shortest_, value);
    }
    ++count_;
  }

  bool converged() const { return count_ >= 2 && second_shortest_ <= shortest_ * (1 + kTolerance); }
  double shortest() const { return shortest_; }
  /// Returns the mean of the two shortest tries, an estimate of a typical undisturbed run; shortest() is the fastest
  /// run. Precondition: converged().
  double mean_of_shortest() const { return (shortest_ + second_shortest_) / 2; }
  int count() const { return count_; }

 private:
  double shortest_ = std::numeric_limits<double>::infinity(),
         second_shortest_ = std::numeric_limits<double>::infinity();
  int count_ = 0;
};

}  // namespace plimsoll
