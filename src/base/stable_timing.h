// Implements timing on a machine that other programs use too: tries are made until two agree.
#pragma once

#include <algorithm>
#include <limits>

namespace plimsoll {

/// A set of tries of one timing, in any unit. Other work can only make a try too long, so the two shortest are accepted
/// when they agree. Consecutive tries may be long together; the caller spreads them over time.
class AgreedTries {
 public:
  /// Largest relative excess of the second shortest try over the shortest.
  static constexpr double kTolerance = 0.15;

  void add(double value) {
    if (value < least_) {
      second_ = least_;
      least_ = value;
    } else {
      second_ = std::min(second_, value);
    }
    ++count_;
  }

  bool agree() const { return count_ >= 2 && second_ <= least_ * (1 + kTolerance); }
  double least() const { return least_; }
  int count() const { return count_; }

 private:
  double least_ = std::numeric_limits<double>::infinity(), second_ = std::numeric_limits<double>::infinity();
  int count_ = 0;
};

}  // namespace plimsoll
