#include "train/loop/step_times.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/job.h"
#include "run/plan_options.h"
#include "run/search/stale_op_times.h"

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

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

void StepTimes::add(double seconds, int64_t tokens, double predicted_seconds, double data_seconds) {
  seconds_.push_back(seconds);
  tokens_.push_back(tokens);
  predicted_seconds_.push_back(predicted_seconds);
  data_seconds_.push_back(data_seconds);
}

bool StepTimes::representative() const {
  return seconds_.size() > kStepsNotTimed;
}

size_t StepTimes::skipped() const {
  return representative() ? kStepsNotTimed : 0;
}

double StepTimes::median_of(const std::vector<double>& values) const {
  return median({values.begin() + static_cast<std::ptrdiff_t>(skipped()), values.end()});
}

double StepTimes::sum_of(const std::vector<double>& values) const {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(skipped()), values.end(), 0.0);
}

double StepTimes::median_seconds() const {
  return median_of(seconds_);
}

double StepTimes::median_predicted_seconds() const {
  return median_of(predicted_seconds_);
}

double StepTimes::median_compute_seconds() const {
  std::vector<double> compute;
  for (size_t i = 0; i < seconds_.size(); ++i) compute.push_back(seconds_[i] - data_seconds_[i]);
  return median_of(compute);
}

double StepTimes::mean_data_seconds() const {
  const auto count = static_cast<double>(seconds_.size() - skipped());
  return count > 0 ? sum_of(data_seconds_) / count : 0;
}

double StepTimes::data_share() const {
  const double all = sum_of(seconds_);
  return all > 0 ? sum_of(data_seconds_) / all : 0;
}

double StepTimes::tokens_per_second() const {
  double seconds = 0, tokens = 0;
  for (size_t i = skipped(); i < seconds_.size(); ++i) {
    seconds += seconds_[i];
    tokens += static_cast<double>(tokens_[i]);
  }
  return seconds > 0 ? tokens / seconds : 0;
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

}  // namespace plimsoll
