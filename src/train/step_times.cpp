#include "train/step_times.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "base/measurement.h"
#include "plimsoll/job.h"
#include "run/search/step_candidate.h"
#include "run/training_parts.h"

namespace plimsoll {
namespace {

constexpr size_t kStepsNotTimed = 2;
// Part of the steps' time that the wait for data must exceed to be named.
constexpr double kNotableWait = 0.1;

// Returns the number of threads that prepare batches: more than batches ahead would only wait.
int64_t workers_of(const Job& job) {
  return std::min(job.data.num_workers, job.data.prefetch);
}

int cores_of_machine() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

bool StepTimes::representative() const {
  return steps_.size() > kStepsNotTimed;
}

std::span<const StepTimes::Step> StepTimes::timed() const {
  return std::span(steps_).subspan(representative() ? kStepsNotTimed : 0);
}

template <typename Value>
double StepTimes::median_of(const Value& value) const {
  std::vector<double> values;
  for (const Step& step : timed()) values.push_back(value(step));
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

template <typename Value>
double StepTimes::sum_of(const Value& value) const {
  double sum = 0;
  for (const Step& step : timed()) sum += static_cast<double>(step.*value);
  return sum;
}

double StepTimes::median_seconds() const {
  return median_of([](const Step& step) { return step.seconds; });
}

double StepTimes::median_predicted_seconds() const {
  return median_of([](const Step& step) { return step.predicted_seconds; });
}

double StepTimes::median_compute_seconds() const {
  return median_of([](const Step& step) { return step.seconds - step.data_seconds; });
}

double StepTimes::mean_data_seconds() const {
  return steps_.empty() ? 0 : sum_of(&Step::data_seconds) / static_cast<double>(timed().size());
}

double StepTimes::data_share() const {
  const double all = sum_of(&Step::seconds);
  return all > 0 ? sum_of(&Step::data_seconds) / all : 0;
}

double StepTimes::tokens_per_second() const {
  const double seconds = sum_of(&Step::seconds);
  return seconds > 0 ? sum_of(&Step::tokens) / seconds : 0;
}

std::string prediction_notes(const Job& job, const PlannedJob& planned, const StepTimes& times) {
  const int threads = threads_of(job);
  const double predicted_seconds = times.median_predicted_seconds();
  const double measured_seconds = times.median_compute_seconds();
  std::string note = invalidate_op_times(planned, threads, predicted_seconds, measured_seconds);
  double load = 0;
  if (::getloadavg(&load, 1) != 1) load = 0;
  const bool offloads = planned.plan.host_bytes + planned.plan.disk_bytes > 0;
  const int own_threads = threads + static_cast<int>(workers_of(job)) + (offloads ? 1 : 0);
  const std::string cause =
      shared_cores_cause(predicted_seconds, measured_seconds, load, cores_of_machine(), own_threads);
  if (cause.empty()) return note;
  if (!note.empty()) return note + "; " + cause;
  return fmt::format("a step took {:.3g} s; {:.3g} s were predicted: {}", measured_seconds, predicted_seconds, cause);
}

std::string data_note(const Job& job, const StepTimes& times) {
  const double share = times.data_share();
  if (!times.representative() || share <= kNotableWait) return "";
  std::string note = fmt::format("steps waited for data for {:.0f} % of their time; raise data.num_workers (now {})",
                                 100 * share, job.data.num_workers);
  if (job.data.num_workers >= job.data.prefetch) note += fmt::format(" and data.prefetch (now {})", job.data.prefetch);
  const int64_t threads = threads_of(job), cores = cores_of_machine();
  if (job.device == "cpu" && threads > 1 && job.ranks.count * (threads + workers_of(job)) > cores)
    note += fmt::format(", and lower threads (now {}) if that does not help: both use the {} core{}", threads, cores,
                        cores == 1 ? "" : "s");
  return note;
}

namespace {

constexpr int kUncheckedSteps = 2;
constexpr size_t kCheckedSteps = 3;
constexpr double kSeconds = 1;
constexpr double kSharedProcessors = 0.5;
constexpr double kNotableStalls = 0.1;  // part of a window

}  // namespace

std::string SharedMachineWatch::after_step(double seconds, double predicted_seconds,
                                           std::optional<double> memory_stalls) {
  if (stated_ || ++steps_ < kUncheckedSteps) return "";
  const double now = measuring_machine().now();
  if (steps_ > kUncheckedSteps) seconds_.push_back(seconds);
  if (steps_ > kUncheckedSteps && (seconds_.size() < kCheckedSteps || now - begin_ < kSeconds)) return "";
  const std::optional<OtherWork> after = measuring_machine().other_work();
  std::string line;
  if (!seconds_.empty()) {
    const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    if (prediction_failed(predicted_seconds, *middle) && *middle > predicted_seconds) {
      const double stalled = stalls_before_ && memory_stalls ? (*memory_stalls - *stalls_before_) / (now - begin_) : 0;
      const double shared = before_ && after ? shared_processors(*before_, *after, now - begin_, threads_) : 0;
      std::string cause;
      if (stalled >= kNotableStalls)
        cause = fmt::format(
            "memory was short for {:.0f} % of the time; stop other programs, raise the limit of the control group, or "
            "set "
            "a smaller memory_budget",
            100 * std::min(1.0, stalled));
      else if (shared >= kSharedProcessors)
        cause = fmt::format("other programs keep {:.1f} of the processors busy that this run's {} need{}; stop them{}",
                            shared, threads_ == 1 ? "thread" : fmt::format("{} threads", threads_),
                            threads_ == 1 ? "s" : "", threads_ == 1 ? "" : ", or set a smaller threads");
      if (!cause.empty()) {
        line = fmt::format("a step takes {:.3g} s; {:.3g} s were predicted: {}", *middle, predicted_seconds, cause);
        stated_ = true;
      }
    }
  }
  stalls_before_ = memory_stalls;
  before_ = after;
  begin_ = now;
  seconds_.clear();
  return line;
}

}  // namespace plimsoll
