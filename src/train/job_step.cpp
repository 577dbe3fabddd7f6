// Converts a job to the step and the options that are recorded and trained, and fills in the planner's choices.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "job/inferred.h"
#include "job/keys/model_kind.h"
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
