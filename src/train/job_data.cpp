#include "train/job_data.h"

#include "data/slice_samples.h"
#include "plimsoll/error.h"
#include "train/micro_batches.h"
#include "train/vocabulary.h"

namespace plimsoll {

namespace {

std::unique_ptr<SampleSource> open_slices(const Job& job, const DataProgress& progress) {
  const PromptSegmentationConfig& model = job.model.segmentation;
  const auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  // Where the model's vocabulary was given the tokenizer's file has not been read yet.
  vocabulary_of(job, model.llm, "model.llm", *tokenizer);
  return slice_samples(job.data, {model.image_size, model.channels, model.prompt_length}, *tokenizer,
                       [&](double fraction) { progress("reading volumes", fraction); });
}

}  // namespace

std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& progress) {
  const std::string& type = job.data.type;
  if (type == "slices") return open_slices(job, progress);
  check(type == "synthetic", "unknown data type " + type);
  return synthetic_samples(job.data, job.seed, synthetic_fields(step.inputs));
}

}  // namespace plimsoll
