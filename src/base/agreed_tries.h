// Timing on a machine that others use too: tries are made until two agree.
#pragma once

#include <algorithm>
#include <limits>

namespace plimsoll {

/// Tries of one timing, in any unit. A try can only be too long, by what else ran at the time: the two shortest are
/// believed when they agree. Tries that follow each other at once may be long together; who makes them spreads them
/// out.
class AgreedTries {
 public:
  /// The second shortest may be this share longer.
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
