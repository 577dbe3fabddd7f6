// Implements timing on a machine that other programs use too: tries are made until two agree.
#pragma once

#include <algorithm>
#include <limits>

namespace plimsoll {

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
