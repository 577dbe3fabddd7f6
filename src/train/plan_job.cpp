#include "train/prepared_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/measurement.h"
#include "device/available_memory.h"
#include "job/inferred.h"
#include "job/keys/kinds.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/models.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/training.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/search/open_choices.h"
#include "run/search/step_candidate.h"
#include "run/training_parts.h"
#include "train/job_data.h"

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

namespace {

constexpr int64_t kParts[] = {2, 4};  // halves and quarters

struct Change {
  std::string change, meaning;
  int64_t part;
};

// Returns the changes by number, the half of each before its quarter.
std::vector<Change> changes_of(const Job& job) {
  std::vector<Change> all;
  for (const job::ReducibleKey& reducible : job::model_kind(job.model.type).reducible_keys) {
    int64_t last = reducible.value(job);
    for (const int64_t part : kParts) {
      const int64_t value = reducible.value(job) / part / reducible.multiple * reducible.multiple;
      if (value < 1 || value >= last) continue;
      last = value;
      all.push_back({fmt::format("{}={}", reducible.key, value), reducible.meaning, part});
    }
  }
  return all;
}

ModelVariant result_of(const PlannedJob& planned, const Change& change) {
  ModelVariant result;
  result.change = change.change;
  result.meaning = change.meaning;
  result.fits = planned.plan.fits;
  result.parameters = planned.settings.parameters;
  result.peak_bytes = planned.plan.peak_bytes;
  result.minimum_budget_bytes = planned.minimum_budget_bytes;
  result.step_seconds = planned.step_seconds;
  result.tokens_per_second = planned.tokens_per_second;
  result.uncertainty = step_uncertainty(planned.settings.cost, planned.plan.trace);
  return result;
}

}  // namespace

ModelVariants model_variants(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                             const PlanTarget& target, const PlannedJob& base_plan,
                             const std::function<bool(const ModelVariantsProgress&)>& should_continue) {
  const std::vector<Change> all = changes_of(read_job(file, overrides));
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < all.size(); ++i) order[i] = i;
  // Halves first, so that an incomplete result has a change of each number.
  std::ranges::stable_sort(order, {}, [&](size_t i) { return all[i].part; });

  ModelVariantsProgress progress{1, static_cast<int64_t>(all.size()) + 1, "", 0};
  const auto require_continue = [&] {
    if (should_continue && !should_continue(progress)) throw SearchStopped();
  };
  const SearchOptions search{.on_schedule = [&] {
    ++progress.schedules;
    require_continue();
  }};
  std::vector<std::optional<ModelVariant>> planned(all.size());
  size_t tried = 0;
  try {
    for (; tried < order.size(); ++tried, ++progress.done) {
      const Change& change = all[order[tried]];
      progress.change = change.change;
      progress.schedules = 0;
      require_continue();
      std::vector<std::string> with = overrides;
      with.push_back(change.change);
      try {
        planned[order[tried]] = result_of(plan_once(read_job(file, with), target, search), change);
      } catch (const UserError& error) {
        // A number that contradicts others: half of the heads' width, say.
        if (error.kind() != UserError::Kind::usage) throw;
      }
    }
  } catch (const SearchStopped&) {  // the changes found so far are a valid result
  }
  ModelVariants result;
  result.planned.push_back(result_of(base_plan, {"", "as it is", 1}));
  for (auto& each : planned)
    if (each) result.planned.push_back(std::move(*each));
  for (size_t i = tried; i < order.size(); ++i) result.untried.push_back(all[order[i]].change);
  return result;
}

int measure_machine(const Job& job, double seconds, int64_t since) {
  if (job.device != "cpu") return 0;            // other devices use the catalogue's rates
  if (job.precision == Precision::automatic) {  // the planner chooses between these two, so both need measured times
    int count = 0;
    for (Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
      Job each = job;
      each.precision = precision;
      count += measure_machine(each, seconds / 2, since);
    }
    return count;
  }
  const int threads = threads_of(job);
  const std::filesystem::path file = op_times_file(threads);
  const double end = measuring_machine().now() + seconds;
  int count = 0;
  std::vector<int64_t> micro_batches;
  for (double left = seconds; left > 0; left = end - measuring_machine().now()) {
    PlanTarget target = target_of(job);
    target.measuring = nullptr;  // the caller requested measurements
    const PlannedJob planned = plan_once(job, target);
    const int64_t micro_batch = planned.settings.micro_batch();
    if (std::ranges::find(micro_batches, micro_batch) != micro_batches.end()) break;
    micro_batches.push_back(micro_batch);
    OpTimes times(threads);
    times.load(file);
    // An op's time includes scratch: the planned trace has it, and recomputed ops are the same as recorded ones.
    const int64_t bytes = planned.settings.budget.device.value_or(current_host_memory().value_or(GiB) / 2);
    int timed = 0;
    const StepShape shape{planned.settings.first_accumulation(), planned.settings.last_micro_batch > 0};
    if (times.lacks(planned.plan.trace, shape, since))
      timed = times.record(planned.plan.trace, try_step(planned.plan, shape, threads, left / 2, bytes), since);
    // Ops of evaluations are left, and all ops if no step was tried. Those of another micro batch keep their time.
    left = end - measuring_machine().now();
    timed += times.measure(planned.plan, typical_cost_model(threads), left, bytes, since);
    count += timed;
    if (file.empty() || timed == 0) break;
    times.save(file);
    // The new times may make another micro batch the fastest by prediction, because its ops still have estimated times.
    if (job.micro_batch_size) break;
  }
  return count;
}

namespace {

// Returns the folder of data offloaded to disk: that of the checkpoints, which are as large; without checkpoints the
// job file's.
std::filesystem::path disk_folder_of(const Job& job) {
  if (!job.disk_path.empty()) return job.disk_path;
  return job.checkpoint.directory.empty() ? job.file.parent_path() : job.checkpoint.directory;
}

/// A maker of a model's step. The vocabulary of the job is set.
struct ModelStep {
  std::string_view type;
  Step (*make)(const Job& job, int64_t micro_batch_size);
};

constexpr ModelStep kSteps[] = {
    {"decoder", [](const Job& job,
                   int64_t samples) { return decoder_step(job.model.decoder, samples, job.data.sequence_length); }},
    {"mamba",
     [](const Job& job, int64_t samples) { return mamba_step(job.model.mamba, samples, job.data.sequence_length); }},
    {"fmri_autoencoder",
     [](const Job& job, int64_t samples) { return fmri_autoencoder_step(job.model.fmri, samples); }},
    {"gesture_ssm",
     [](const Job& job, int64_t samples) {
       return gesture_ssm_step(job.model.gesture, samples, job.data.series.vectors());
     }},
    {"prompt_segmentation",
     [](const Job& job, int64_t samples) { return prompt_segmentation_step(job.model.segmentation, samples); }},
    {"video_llm",
     [](const Job& job, int64_t samples) {
       return video_llm_step(job.model.video_llm, frames_of_clip(job.data.clips), job.data.sequence_length, samples);
     }},
};

}  // namespace

Step step_of(const Job& job, int64_t micro_batch_size) {
  const auto found = std::ranges::find(kSteps, job.model.type, &ModelStep::type);
  check(found != std::end(kSteps), "unknown model type " + job.model.type);
  Job whole = job;
  if (const auto& vocabulary = job::model_kind(job.model.type).vocabulary) vocabulary->rows(whole) = vocabulary_of(job);
  return found->make(whole, micro_batch_size);
}

TrainingOptions options_of(const Job& job) {
  TrainingOptions options = with_batch(job);
  options.evaluate = job.data.is_evaluated();
  options.prefetched_micro_batches = job.data.prefetch + 1;  // one is the step's
  options.disk_path = disk_folder_of(job);
  const auto& checkpointed = job::model_kind(job.model.type).checkpointed_module;
  if (checkpointed && checkpointed->value(job) && job.gradient_checkpointing == Choice::automatic) {
    options.gradient_checkpointing = Choice::on;
    options.checkpointed_module = checkpointed->module;
  }
  return options;
}

Job resolved_job(Job job, const PlannedJob& planned) {
  TrainingOptions options = planned.settings;
  // The job keeps its own values of settings that options_of() derives.
  options.budget.host = job.budget.host;
  options.disk_path = job.disk_path;
  options.gradient_checkpointing = job.gradient_checkpointing;
  options.checkpointed_module = job.checkpointed_module;
  static_cast<TrainingOptions&>(job) = std::move(options);
  if (is_language_model(job)) rows_of_embedding(job) = planned.vocab_size;
  return job;
}

}  // namespace plimsoll
