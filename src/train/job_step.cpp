// Converts a job to the step and the options that are recorded and trained, and fills in the planner's choices.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "job/keys/model_kind.h"
#include "job/vocabulary.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/models.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/training.h"

namespace plimsoll {
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

std::string describe_micro_batches(const ResolvedSettings& settings) {
  const int64_t count = settings.accumulation.empty() ? 1 : settings.accumulation.begin()->second;
  if (settings.last_micro_batch == 0) return fmt::format("{} x {}", settings.micro_batch_size, count);
  return fmt::format("{} x {} + {}", settings.micro_batch_size, count - 1, settings.last_micro_batch);
}

Step step_of(const Job& job, int64_t micro_batch_size) {
  const auto found = std::ranges::find(kSteps, job.model.type, &ModelStep::type);
  check(found != std::end(kSteps), "unknown model type " + job.model.type);
  Job whole = job;
  if (const auto& vocabulary = job::model_kind(job.model.type).vocabulary) vocabulary->rows(whole) = vocabulary_of(job);
  return found->make(whole, micro_batch_size);
}

TrainingOptions options_of(const Job& job) {
  TrainingOptions options;
  options.precision = job.precision.value_or(Precision::fp32_true);
  options.dtype = job.model.dtype;
  options.fine_tuning = job.fine_tuning;
  options.optimizer = job.optimizer;
  options.max_grad_norm = job.max_grad_norm;
  options.accumulate =
      job.gradient_accumulation_steps
          ? std::ranges::any_of(*job.gradient_accumulation_steps, [](const auto& entry) { return entry.second > 1; })
          : job.batch_size.value_or(1) > 1;
  options.last_micro_batch = last_micro_batch_of(job);
  options.evaluate = job.data.is_evaluated();
  options.gradient_checkpointing = job.gradient_checkpointing;
  const auto& checkpointed = job::model_kind(job.model.type).checkpointed_module;
  if (checkpointed && checkpointed->value(job) && job.gradient_checkpointing == Choice::automatic) {
    options.gradient_checkpointing = Choice::on;
    options.checkpointed_module = checkpointed->module;
  }
  options.update_in_backward = job.update_in_backward;
  options.compile = job.compile;
  options.accumulator_dtype = job.accumulator_dtype;
  options.budget = job.budget;
  options.ranks.count = job.devices;
  options.ranks.strategy = job.strategy;
  options.ranks.whole_part = job.whole_part;
  options.disk_path = disk_folder_of(job);
  if (job.gradient_accumulation_steps) options.micro_batches = job.gradient_accumulation_steps->begin()->second;
  options.device = job.device;
  options.threads = static_cast<int>(job.threads);
  options.seed = job.seed;
  return options;
}

Job resolved_job(Job job, const ResolvedSettings& settings) {
  if (is_language_model(job)) rows_of_embedding(job) = settings.vocab_size;
  job.precision = settings.precision;
  job.optimizer.state_dtype = settings.state_dtype;
  job.optimizer.weight_update = settings.weight_update;
  job.accumulator_dtype = settings.accumulator_dtype;
  job.micro_batch_size = settings.micro_batch_size;
  job.gradient_accumulation_steps = settings.accumulation;
  job.batch_size = settings.sequences(settings.accumulation.at(0));
  job.budget.device = settings.budget.device;
  job.devices = settings.devices;
  if (settings.devices > 1) job.strategy = settings.strategy;
  job.whole_part = settings.whole_part;
  return job;
}

}  // namespace plimsoll
