#include "plimsoll/plan_job.h"

#include <utility>

#include "job/vocabulary.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"
#include "run/search/slow_matmul.h"
#include "run/search/stale_op_times.h"
#include "train/job_data.h"
#include "train/plan_once.h"

namespace plimsoll {
namespace {

// A job as plan_training() takes it.
struct JobStep {
  explicit JobStep(const Job& given) : job(given) {
    check(job.batch_size && *job.batch_size >= 1, "Job::batch_size is filled in before the job is planned");
    check(job.micro_batch_size.has_value() == job.gradient_accumulation_steps.has_value(),
          "a job's micro batch and its accumulation are both set or both open");
    decide_evaluation(job.data);
    if (is_language_model(job)) rows_of_embedding(job) = vocab_size = vocabulary_of(job);
    options = options_of(job);
    step = [this](int64_t micro_batch_size) { return step_of(job, micro_batch_size); };
  }
  // `step` refers to the job.
  JobStep(const JobStep&) = delete;
  JobStep& operator=(const JobStep&) = delete;

  PlannedJob of_job(PlannedTraining planned) const {
    PlannedJob result{std::move(planned)};
    result.vocab_size = vocab_size;
    result.tokens_per_second = result.samples_per_second * static_cast<double>(units_of_sample(job));
    return result;
  }

  Job job;
  int64_t vocab_size = 0;
  TrainingOptions options;
  StepOfSize step;
};

}  // namespace

PlannedJob plan_once(const Job& job, const PlanTarget& target, const SearchOptions& search) {
  const JobStep of(job);
  return of.of_job(plan_training(of.step, of.options, target, search));
}

PlannedJob plan_job(const Job& job, const PlanTarget& target, const SearchOptions& search) {
  const JobStep of(job);
  PlannedTraining planned = plan_training(of.step, of.options, target, search);
  SearchOptions quiet = search;  // the verdict is known
  quiet.on_fit = nullptr;
  if (!retime_stale_ops(planned, of.step, of.options, target, quiet))
    note_slow_matmul(planned, of.step, of.options, target, quiet);
  return of.of_job(std::move(planned));
}

PlannedJob plan_job(const Job& job) {
  return plan_job(job, target_of(job));
}

std::vector<FrontierPoint> frontier_of(const Job& job, const PlanTarget& target, int points) {
  const JobStep of(job);
  return frontier_of(of.step, of.options, target, points);
}

}  // namespace plimsoll
