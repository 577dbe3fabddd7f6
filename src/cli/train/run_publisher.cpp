#include "cli/train/run_publisher.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/process.h"
#include "cli/output.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

constexpr double kSecondsBetween = 0.5;
constexpr const char* kTraining = "training";

}  // namespace

RunPublisher::RunPublisher(const Job& job, TrainObserver& next) : next_(next) {
  status_.pid = getpid();
  status_.process_start = process_start_of(status_.pid).value_or(0);
  status_.job = job.file.string();
  status_.device = job.device;
  status_.state = "preparing";
  status_.max_steps = step_limit_of(job).value_or(0);
  status_.unit = unit_of(job);
  status_.host_budget_bytes = job.budget.host;
  status_.started = seconds_since_1970();
  publish(true);
}

RunPublisher::~RunPublisher() {
  publish_end("failed");
}

void RunPublisher::ended(const TrainReport& report) {
  // A run ends early because of a signal, or because it cannot save.
  const bool failed = !report.fits || (report.stopped && !report.not_written.empty());
  publish_end(failed ? "failed" : report.stopped ? "stopped" : "finished");
}

void RunPublisher::publish_end(const char* state) {
  if (status_.state != kTraining) return;  // no step was taken, or the end was published
  status_.state = state;
  publish(true);
  file_.keep();
}

void RunPublisher::take(const PlannedJob& job) {
  const Plan& plan = job.plan;
  status_.budget_bytes = plan.budget.device_bytes();
  status_.planned_bytes = plan.peak_bytes;
  status_.host_planned_bytes = plan.host_bytes;
  status_.roles.clear();
  for_each_part([&](const char* name, int64_t Breakdown::*part) {
    if (plan.breakdown.*part > 0) status_.roles.push_back({name, plan.breakdown.*part});
  });
  std::ranges::sort(status_.roles, std::greater(), &RoleBytes::planned);
  publish(true);
}

void RunPublisher::publish(bool at_once) {
  const double now = seconds_since_1970();
  if (!at_once && now - published_ < kSecondsBetween) return;
  published_ = status_.updated = now;
  file_.write(status_);
}

void RunPublisher::preparing(const std::string& what, double fraction) {
  publish(false);
  next_.preparing(what, fraction);
}
void RunPublisher::planned(const PlannedJob& job) {
  take(job);
  next_.planned(job);
}
void RunPublisher::replanned(const std::string& why, const PlannedJob& job) {
  take(job);
  next_.replanned(why, job);
}
void RunPublisher::counted(const RunLength& length, const EvaluatedPart& evaluated) {
  status_.max_steps = length.steps;
  publish(true);
  next_.counted(length, evaluated);
}
void RunPublisher::resumed(const std::string& checkpoint, int64_t step) {
  status_.step = step;
  next_.resumed(checkpoint, step);
}
void RunPublisher::stepped(const TrainProgress& progress) {
  const bool first = status_.state != kTraining;
  status_.state = kTraining;
  status_.step = progress.step;
  status_.epoch = progress.epoch;
  status_.loss = progress.loss;
  status_.learning_rate = progress.learning_rate;
  status_.units_per_second = progress.tokens_per_second;
  status_.step_seconds = progress.step_seconds;
  status_.used_bytes = progress.memory_used;
  status_.ranks.clear();
  for (const RankProgress& rank : progress.ranks)
    status_.ranks.push_back({.host = rank.host,
                             .pid = rank.pid,
                             .planned_bytes = rank.memory_planned,
                             .used_bytes = rank.memory_used,
                             .exchange_seconds = rank.exchange_seconds,
                             .train_seconds = rank.train_seconds});
  publish(first);
  next_.stepped(progress);
}
void RunPublisher::evaluated(int64_t step, double loss) {
  next_.evaluated(step, loss);
}
void RunPublisher::measured(int64_t step, const std::vector<std::pair<std::string, double>>& metrics) {
  next_.measured(step, metrics);
}
void RunPublisher::noted(const std::string& what) {
  next_.noted(what);
}
void RunPublisher::sample_skipped(const std::string& what) {
  next_.sample_skipped(what);
}
void RunPublisher::saved(const std::string& checkpoint, int64_t step) {
  next_.saved(checkpoint, step);
}
void RunPublisher::starting() {
  next_.starting();
}
void RunPublisher::metrics_write_failed(const std::string& why) {
  next_.metrics_write_failed(why);
}

}  // namespace plimsoll::cli
