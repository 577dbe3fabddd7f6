#include "train/loop/run_metrics.h"

#include <fmt/format.h>

#include "base/key_errors.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {

void RunMetrics::open(const Job& job, int64_t resumed_step) {
  if (job.log.metrics_file.empty()) return;
  std::optional<int64_t> rewritten;
  if (resumed_step > 0) rewritten = resumed_step + 1;
  of_key("log.metrics_file", [&] { log_.emplace(job.log.metrics_file, rewritten); });
}

void RunMetrics::log(const Job& job, const TrainProgress& progress, int64_t tokens, int64_t position) {
  tokens_since_log_ += tokens;
  if (!log_ || progress.step % job.log.every_n_steps != 0) return;
  const double now = seconds_now();
  write(progress.step, {{"loss", progress.loss},
                        {"gradient_norm", progress.gradient_norm},
                        {"learning_rate", progress.learning_rate},
                        {"epoch", progress.epoch},
                        {unit_of(job), position * units_of_sample(job)},
                        {unit_of(job) + "_per_second", static_cast<double>(tokens_since_log_) / (now - logged_at_)},
                        {"steps_skipped", progress.steps_skipped},
                        {"loss_scale", progress.loss_scale},
                        {"memory_bytes", progress.memory_used}});
  logged_at_ = now;
  tokens_since_log_ = 0;
}

void RunMetrics::write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values) {
  if (!log_) return;
  try {
    log_->write(step, values);
  } catch (const UserError& error) {
    if (lost_++ == 0) {
      lost_from_ = step;
      lost_why_ = error.what();
      observer_.metrics_write_failed(lost_why_);
    }
  }
}

std::string RunMetrics::not_written() const {
  if (lost_ == 0) return "";
  return fmt::format("{} line{} of the metrics, the first of step {}: {}", lost_, lost_ == 1 ? "" : "s", lost_from_,
                     lost_why_);
}

}  // namespace plimsoll
