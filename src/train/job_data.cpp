#include "train/job_data.h"

#include "data/clips/clip_samples.h"
#include "data/pictures/picture_samples.h"
#include "data/series/series_samples.h"
#include "data/slices/slice_samples.h"
#include "data/stimuli/stimuli_samples.h"
#include "data/tokenizers/tokenizer.h"
#include "files/data_memory.h"
#include "job/vocabulary.h"
#include "plimsoll/error.h"
#include "train/micro_batches.h"

namespace plimsoll {
namespace {

std::unique_ptr<SampleSource> open_clips(const Job& job, const DataProgress& progress) {
  const auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  vocabulary_of(job, *tokenizer);  // throws if it is too small
  // The shape is the step's: both follow from the job's own keys.
  const VideoLlmConfig& model = job.model.video_llm;
  const ClipShape shape{frames_of_clip(job.data.clips), model.image_size, job.data.sequence_length,
                        model.vision.image_mean, model.vision.image_std};
  return clip_samples(job.data, *tokenizer, shape, [&](double fraction) { progress("decoding videos", fraction); });
}

StimuliShape shape_of(const FmriAutoencoderConfig& model) {
  return {.voxels = model.voxels,
          .video_frames = model.video_frames,
          .video_size = model.video_size,
          .audio_frames = model.audio_frames,
          .audio_mels = model.audio_mels,
          .text_tokens = model.text_tokens,
          .text_features = model.text_features};
}

std::unique_ptr<SampleSource> open_slices(const Job& job, const DataProgress& progress) {
  const PromptSegmentationConfig& model = job.model.segmentation;
  const auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  // If the job sets the model's vocabulary, the tokenizer's file has not been read yet.
  vocabulary_of(job, *tokenizer);
  const SliceShape shape{model.image_size, model.channels, model.prompt_length};
  const bool pictures = job.data.type == "pictures";
  const auto told = [&](double fraction) { progress(pictures ? "reading pictures" : "reading volumes", fraction); };
  return pictures ? picture_samples(job.data, shape, *tokenizer, told, job.seed)
                  : slice_samples(job.data, shape, *tokenizer, told, job.seed);
}

}  // namespace

std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& progress) {
  const std::string& type = job.data.type;
  DataMemory memory(job.data.memory_budget);
  const DataMemory::Scope scope(memory);
  if (type == "series")
    return series_samples(job.data, {job.model.gesture.channels, job.model.gesture.num_classes}, job.seed);
  if (type == "clips") return open_clips(job, progress);
  if (type == "stimuli") return stimuli_samples(job.data, shape_of(job.model.fmri), progress);
  if (type == "slices" || type == "pictures") return open_slices(job, progress);
  check(type == "synthetic", "unknown data type " + type);
  return synthetic_samples(job.data, job.seed, synthetic_fields(step.inputs));
}

}  // namespace plimsoll
