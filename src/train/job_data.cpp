#include "train/job_data.h"

#include "data/stimuli_samples.h"
#include "plimsoll/error.h"
#include "train/micro_batches.h"

namespace plimsoll {
namespace {

StimuliShape shape_of(const FmriAutoencoderConfig& model) {
  return {.voxels = model.voxels,
          .video_frames = model.video_frames,
          .video_size = model.video_size,
          .audio_frames = model.audio_frames,
          .audio_mels = model.audio_mels,
          .text_tokens = model.text_tokens,
          .text_features = model.text_features};
}

}  // namespace

std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& progress) {
  const std::string& type = job.data.type;
  if (type == "stimuli") return stimuli_samples(job.data, shape_of(job.model.fmri), progress);
  check(type == "synthetic", "unknown data type " + type);
  return synthetic_samples(job.data, job.seed, synthetic_fields(step.inputs));
}

}  // namespace plimsoll
