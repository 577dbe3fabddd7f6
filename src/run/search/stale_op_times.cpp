#include "run/search/stale_op_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/measurement.h"
#include "device/allocation_frame.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/plan_options.h"

namespace plimsoll {
namespace {

// Seconds for a run; a plan has an allowance.
constexpr double kSecondsToTimeAgain = 10;

}  // namespace

bool prediction_failed(double predicted_seconds, double measured_seconds) {
  return predicted_seconds > 0 && measured_seconds > 0 &&
         (measured_seconds >= 1.5 * predicted_seconds || measured_seconds <= 0.5 * predicted_seconds);
}

std::string invalidate_op_times(const PlannedTraining& planned, int threads, double predicted_seconds,
                                double measured_seconds) {
  if (!planned.settings.cost.measured_seconds || !prediction_failed(predicted_seconds, measured_seconds)) return "";
  const std::filesystem::path file = op_times_file(threads);
  if (file.empty()) return "";
  OpTimes times(threads);
  times.load(file);
  const int count = times.invalidate(planned.plan.trace);
  if (count == 0) return "";
  times.save(file);
  return fmt::format(
      "a step took {:.3g} s; {:.3g} s were predicted from timed operators; the next plan times {} operators again",
      measured_seconds, predicted_seconds, count);
}

std::string shared_cores_cause(double predicted_seconds, double measured_seconds, double load, int cores,
                               int own_threads) {
  if (!prediction_failed(predicted_seconds, measured_seconds) || measured_seconds < predicted_seconds) return "";
  // Half a thread more, for rounding and for threads that are ending.
  if (cores <= 0 || load < std::max(cores, own_threads) + 0.5) return "";
  return fmt::format(
      "other processes probably use the same cores (load average {:.1f} on {} core{}); stop them, or set threads to "
      "the "
      "number of free cores",
      load, cores, cores == 1 ? "" : "s");
}

bool retime_stale_ops(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search) {
  if (!target.is_local || target.device != "cpu") return false;
  const int threads = threads_of(options);
  const std::filesystem::path file = op_times_file(threads);
  OpTimes times(threads, [&search, timer = machine_op_timer()](const Trace& trace, const Op& op,
                                                               std::span<const int64_t> distances) {
    if (search.on_schedule) search.on_schedule();
    return timer(trace, op, distances);
  });
  times.load(file);
  const int stale = times.invalidated(planned.plan.trace);
  if (stale == 0) return false;
  int64_t bytes = target.budget.device.value_or(current_host_memory().value_or(GiB) / 2);
  double seconds = kSecondsToTimeAgain;
  MeasureAllowance* const allowance = target.measuring.get();
  if (allowance) {
    bytes = std::min(bytes, allowance->limits().bytes);
    seconds = std::min(seconds, allowance->seconds_left());
  }
  int timed = 0;
  if (seconds > 0) {
    const MeasureAllowance::Charge charge(allowance);
    const ScratchLimit scratch(allowance ? bytes : std::numeric_limits<int64_t>::max());
    timed = times.measure(planned.plan, target.cost, seconds, bytes);
  }
  if (timed > 0) times.save(file);
  const int left = times.invalidated(planned.plan.trace);
  const auto say = [&](const std::string& decision, const std::string& why) {
    planned.settings.reasons.push_back({decision, why});
    planned.plan.reasons.push_back({decision, why});
  };
  if (left == stale) {  // a second plan would equal the first
    say(fmt::format("not timed again: {} operator{}", left, left == 1 ? "" : "s"),
        allowance ? fmt::format("planning measures for at most {:g} s and {}; plimsoll train times {}",
                                allowance->limits().seconds, format_bytes(allowance->limits().bytes),
                                left == 1 ? "it" : "them")
                  : "timing takes too long; typical rates are used");
    return false;
  }
  PlanTarget again = target;
  again.cost = machine_cost_model(threads);
  again.cost.peer_link = target.cost.peer_link;
  again.cost.peer_latency = target.cost.peer_latency;
  again.cost.exchanges_overlap = target.cost.exchanges_overlap;
  planned = plan_training(step, options, again, search);
  say(fmt::format("operators timed again: {}", stale - left),
      fmt::format(
          "a run took at least 1.5 times or at most half of the time that was predicted from their times{}",
          left > 0 ? fmt::format("; {} more operators use typical rates because timing them takes long", left) : ""));
  return true;
}

}  // namespace plimsoll
