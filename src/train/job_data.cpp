#include "train/job_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "data/clips/clip_list.h"
#include "data/clips/clip_samples.h"
#include "data/pictures/picture_list.h"
#include "data/pictures/picture_samples.h"
#include "data/series/series_samples.h"
#include "data/slices/slice_samples.h"
#include "data/stimuli/stimuli_samples.h"
#include "data/text/text_samples.h"
#include "data/tokenizers/tokenizer.h"
#include "files/data_memory.h"
#include "files/data_notes.h"
#include "job/keys/data_kind.h"
#include "job/vocabulary.h"
#include "plimsoll/error.h"
#include "train/micro_batches.h"

namespace plimsoll {
namespace {

/// Returns the job's tokenizer. Throws UserError if the model's vocabulary is too small for it: if the job sets the
/// vocabulary, the tokenizer's file has not been read yet.
std::unique_ptr<Tokenizer> open_tokenizer(const Job& job) {
  auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  vocabulary_of(job, *tokenizer);
  return tokenizer;
}

OpenedSamples open_synthetic(const Job& job, const Step& step, const DataProgress&) {
  return {synthetic_samples(job.data, job.seed, synthetic_fields(step.inputs))};
}

OpenedSamples open_text(const Job& job, const Step&, const DataProgress& progress) {
  auto tokenizer = open_tokenizer(job);
  const std::string what = fmt::format("tokenizing with '{}'", tokenizer->name());
  auto source = text_samples(job.data, *tokenizer, [&](double fraction) { progress(what, fraction); });
  std::string identified = tokenizer_text(*tokenizer);
  return {std::move(source), std::move(tokenizer), std::move(identified)};
}

OpenedSamples open_series(const Job& job, const Step&, const DataProgress&) {
  return {series_samples(job.data, {job.model.gesture.channels, job.model.gesture.num_classes}, job.seed)};
}

OpenedSamples open_clips(const Job& job, const Step&, const DataProgress& progress) {
  const auto tokenizer = open_tokenizer(job);
  // The shape is the step's: both follow from the job's own keys.
  const VideoLlmConfig& model = job.model.video_llm;
  const ClipShape shape{frames_of_clip(job.data.clips), model.image_size, job.data.sequence_length,
                        model.vision.image_mean, model.vision.image_std};
  return {.source = clip_samples(job.data, *tokenizer, shape,
                                 [&](double fraction) { progress("decoding videos", fraction); }),
          .tokenizer_text = tokenizer_text(*tokenizer)};
}

OpenedSamples open_stimuli(const Job& job, const Step&, const DataProgress& progress) {
  const FmriAutoencoderConfig& model = job.model.fmri;
  return {stimuli_samples(job.data,
                          {.voxels = model.voxels,
                           .video_frames = model.video_frames,
                           .video_size = model.video_size,
                           .audio_frames = model.audio_frames,
                           .audio_mels = model.audio_mels,
                           .text_tokens = model.text_tokens,
                           .text_features = model.text_features},
                          progress, job.seed)};
}

SliceShape shape_of(const PromptSegmentationConfig& model) {
  return {model.image_size, model.channels, model.prompt_length};
}

OpenedSamples open_slices(const Job& job, const Step&, const DataProgress& progress) {
  const auto tokenizer = open_tokenizer(job);
  return {.source = slice_samples(
              job.data, shape_of(job.model.segmentation), *tokenizer,
              [&](double fraction) { progress("reading volumes", fraction); }, job.seed),
          .tokenizer_text = tokenizer_text(*tokenizer)};
}

OpenedSamples open_pictures(const Job& job, const Step&, const DataProgress& progress) {
  const auto tokenizer = open_tokenizer(job);
  return {.source = picture_samples(
              job.data, shape_of(job.model.segmentation), *tokenizer,
              [&](double fraction) { progress("reading pictures", fraction); }, job.seed),
          .tokenizer_text = tokenizer_text(*tokenizer)};
}

bool clip_list_holds_out(const DataConfig& data) {
  return std::ranges::any_of(read_clip_list(data.clips.list),
                             [](const CaptionedVideo& each) { return each.split == Split::validation; });
}

bool picture_list_holds_out(const DataConfig& data) {
  return std::ranges::any_of(picture_tasks(data),
                             [&](const PictureTask& each) { return each.split == data.evaluate_on; });
}

std::vector<std::filesystem::path> files_of_clip_list(const DataConfig& data) {
  std::vector<std::filesystem::path> files;
  for (const CaptionedVideo& each : read_clip_list(data.clips.list)) files.push_back(each.file);
  return files;
}

std::vector<std::filesystem::path> files_of_picture_list(const DataConfig& data) {
  std::vector<std::filesystem::path> files;
  for (const PictureTask& each : picture_tasks(data)) files.insert(files.end(), {each.image, each.mask});
  return files;
}

/// A type of data: what opens its samples.
struct SampleOpener {
  std::string_view type;
  OpenedSamples (*open)(const Job& job, const Step& step, const DataProgress& progress);
  /// Returns the list of samples that may hold some out by its own split; nullptr: there is none.
  const std::filesystem::path& (*list)(const DataConfig& data) = nullptr;
  /// Returns whether the list assigns a sample to the part that evaluations use.
  bool (*list_holds_out)(const DataConfig& data) = nullptr;
  /// Returns the files that the list names, in its order.
  std::vector<std::filesystem::path> (*files_of_list)(const DataConfig& data) = nullptr;
};

constexpr SampleOpener kOpeners[] = {
    {"text", open_text},
    {"synthetic", open_synthetic},
    {"series", open_series},
    {"slices", open_slices},
    {"pictures", open_pictures,
     [](const DataConfig& data) -> const std::filesystem::path& { return data.pictures.list; }, picture_list_holds_out,
     files_of_picture_list},
    {"clips", open_clips, [](const DataConfig& data) -> const std::filesystem::path& { return data.clips.list; },
     clip_list_holds_out, files_of_clip_list},
    {"stimuli", open_stimuli},
};

const SampleOpener& opener_of(const DataConfig& data) {
  const auto found = std::ranges::find(kOpeners, data.type, &SampleOpener::type);
  check(found != std::end(kOpeners), "unknown data type " + data.type);
  return *found;
}

bool list_holds_out(const DataConfig& data) {
  const SampleOpener& opener = opener_of(data);
  std::error_code error;
  if (!opener.list || !std::filesystem::is_regular_file(opener.list(data), error)) return false;
  try {
    return opener.list_holds_out(data);
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

void decide_evaluation(DataConfig& data) {
  if (!data.evaluated) data.evaluated = data.is_evaluated() || list_holds_out(data);
}

std::vector<DataFileOfKey> data_files(const Job& job) {
  std::vector<DataFileOfKey> all;
  const job::DataKind& kind = job::data_kind(job.data.type);
  if (!kind.from_files) return all;
  // The command line may have replaced a type that has data.files.
  if (std::ranges::any_of(kind.keys, [](const job::Key& key) { return key.help.key == "data.files"; }))
    for (const std::filesystem::path& file : job.data.files) all.push_back({"data.files", file});
  Job copy = job;
  if (kind.paths)
    for (const job::DataPath& each : kind.paths(copy))
      if (!each.path->empty()) all.push_back({each.key, *each.path});
  const SampleOpener& opener = opener_of(job.data);
  if (!opener.files_of_list || opener.list(job.data).empty()) return all;
  std::set<std::filesystem::path> known;
  for (const std::filesystem::path& file : opener.files_of_list(job.data))
    if (known.insert(file).second) all.push_back({"data.list", file});
  return all;
}

OpenedSamples open_samples(const Job& job, const Step& step, const DataProgress& progress) {
  DataMemory memory(job.data.memory_budget);
  const DataMemory::Scope scope(memory);
  DataNotes notes;
  const DataNotes::Scope notes_scope(notes);
  OpenedSamples opened = opener_of(job.data).open(job, step, progress);
  opened.notes = notes.lines();
  return opened;
}

}  // namespace plimsoll
