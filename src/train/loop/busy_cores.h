// Notices during a run that other programs use its processors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/measurement.h"

namespace plimsoll {

/// Looks at the steps of a run on the CPU in windows of at least three steps and a second, after the first two steps,
/// which measure scratch and plan again. Reads the clocks of measuring_machine().
class BusyCores {
 public:
  /// `threads`: CPU threads of the steps.
  explicit BusyCores(int threads) : threads_(threads) {}

  /// Call it after each step with its seconds, waits for data not counted, and the predicted ones. Returns a line the
  /// first time that the steps of a window take at least 1.5 times as long as predicted while other programs keep at
  /// least half a processor of this run busy; otherwise "".
  std::string after_step(double seconds, double predicted_seconds);

 private:
  int threads_;
  int steps_ = 0;
  bool stated_ = false;
  double begin_ = 0;
  std::optional<OtherWork> before_;
  std::vector<double> seconds_;
};

}  // namespace plimsoll
