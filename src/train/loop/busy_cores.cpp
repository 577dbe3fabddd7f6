#include "train/loop/busy_cores.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/measurement.h"
#include "run/search/stale_op_times.h"

namespace plimsoll {
namespace {

constexpr int kStepsNotTimed = 2;
constexpr size_t kSteps = 3;
constexpr double kSeconds = 1;
constexpr double kSharedProcessors = 0.5;

}  // namespace

std::string BusyCores::after_step(double seconds, double predicted_seconds) {
  if (stated_ || ++steps_ < kStepsNotTimed) return "";
  const double now = measuring_machine().now();
  if (steps_ > kStepsNotTimed) seconds_.push_back(seconds);
  if (steps_ > kStepsNotTimed && (seconds_.size() < kSteps || now - begin_ < kSeconds)) return "";
  const std::optional<OtherWork> after = measuring_machine().other_work();
  std::string line;
  if (before_ && after && !seconds_.empty()) {
    const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    const double shared = shared_processors(*before_, *after, now - begin_, threads_);
    if (prediction_failed(predicted_seconds, *middle) && *middle > predicted_seconds && shared >= kSharedProcessors) {
      line = fmt::format(
          "a step takes {:.3g} s; {:.3g} s were predicted: other programs keep {:.1f} of the processors busy that this "
          "run's {} "
          "need{}; stop them{}",
          *middle, predicted_seconds, shared, threads_ == 1 ? "thread" : fmt::format("{} threads", threads_),
          threads_ == 1 ? "s" : "", threads_ == 1 ? "" : ", or set a smaller threads");
      stated_ = true;
    }
  }
  before_ = after;
  begin_ = now;
  seconds_.clear();
  return line;
}

}  // namespace plimsoll
