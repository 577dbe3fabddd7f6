#include "train/loop/step_times.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "plimsoll/job.h"
#include "run/plan_options.h"
#include "train/stale_op_times.h"

namespace plimsoll {
namespace {

constexpr size_t kStepsNotTimed = 2;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

void StepTimes::add(double seconds, int64_t tokens, double predicted_seconds) {
  seconds_.push_back(seconds);
  predicted_seconds_.push_back(predicted_seconds);
  tokens_.push_back(tokens);
}

bool StepTimes::representative() const {
  return seconds_.size() > kStepsNotTimed;
}

size_t StepTimes::skipped() const {
  return representative() ? kStepsNotTimed : 0;
}

double StepTimes::median_seconds() const {
  return median({seconds_.begin() + static_cast<std::ptrdiff_t>(skipped()), seconds_.end()});
}

double StepTimes::median_predicted_seconds() const {
  return median({predicted_seconds_.begin() + static_cast<std::ptrdiff_t>(skipped()), predicted_seconds_.end()});
}

double StepTimes::tokens_per_second() const {
  double seconds = 0, tokens = 0;
  for (size_t i = skipped(); i < seconds_.size(); ++i) {
    seconds += seconds_[i];
    tokens += static_cast<double>(tokens_[i]);
  }
  return seconds > 0 ? tokens / seconds : 0;
}

std::string prediction_notes(const Job& job, const PlannedJob& planned, double predicted_seconds,
                             double measured_seconds) {
  const int threads = threads_of(options_of(job));
  std::string note = invalidate_op_times(planned, threads, predicted_seconds, measured_seconds);
  double load = 0;
  if (::getloadavg(&load, 1) != 1) load = 0;
  const bool offloads = planned.plan.host_bytes + planned.plan.disk_bytes > 0;
  const int own_threads = threads + static_cast<int>(job.data.num_workers) + (offloads ? 1 : 0);
  const std::string cause = shared_cores_cause(predicted_seconds, measured_seconds, load,
                                               static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), own_threads);
  if (cause.empty()) return note;
  if (!note.empty()) return note + "; " + cause;
  return fmt::format("a step took {:.3g} s; {:.3g} s were predicted: {}", measured_seconds, predicted_seconds, cause);
}

}  // namespace plimsoll
