#include "train/job_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/clips/clip_list.h"
#include "data/clips/clip_samples.h"
#include "data/masks/picture_list.h"
#include "data/masks/picture_samples.h"
#include "data/masks/slice_samples.h"
#include "data/series/series_samples.h"
#include "data/series/stimuli_samples.h"
#include "data/text/text_dataset.h"
#include "data/text/tokenizer.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "job/inferred.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
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
  DataMemory memory(job.data.memory_budget, 0, job.data.memory_of_process);
  const DataMemory::Scope scope(memory);
  DataNotes notes;
  const DataNotes::Scope notes_scope(notes);
  OpenedSamples opened = opener_of(job.data).open(job, step, progress);
  opened.notes = notes.lines();
  return opened;
}

namespace {

namespace fs = std::filesystem;

// A checkpoint names each file of a key up to this number of files.
constexpr size_t kMaxNamedFiles = 256;

/// Returns the last part of a path, "pictures" for "data/pictures/" as well. A checkpoint holds valid UTF-8.
std::string name_of_path(const fs::path& path) {
  const fs::path plain = path.lexically_normal();
  return valid_utf8((plain.has_filename() ? plain : plain.parent_path()).filename().string());
}

/// Returns nullopt for a file without bytes to read if data.skip_bad leaves it out.
std::optional<FileIdentity> identity_of(const DataFileOfKey& file, const DataConfig& data) {
  try {
    const FileIdentity identity = of_key(file.key, [&] {
      std::error_code error;
      if (!fs::is_directory(file.path, error)) return identity_of_file(file.path);
      // Other files in a folder of pictures are not read.
      return data.type == "pictures" ? identity_of_folder(file.path, is_picture_file) : identity_of_folder(file.path);
    });
    return data.skip_bad && identity.bytes == 0 ? std::nullopt : std::optional(identity);
  } catch (const UserError&) {
    if (!data.skip_bad) throw;
    return std::nullopt;
  }
}

/// Returns the identity of files whose names are data, too.
FileIdentity identity_with(FileIdentity identity, const std::string& names) {
  if (!names.empty()) identity.hash = hash_bytes(fmt::format("{:016x} {}", identity.hash, names));
  return identity;
}

/// Replaces the facts of each key with more than kMaxNamedFiles by one fact, at the place of the first.
std::vector<DataFileFact> without_long_lists(std::vector<DataFileFact> files) {
  std::map<std::string, std::vector<FileIdentity>> by_key;
  std::map<std::string, std::string> names;  // of files whose names are data
  for (const DataFileFact& each : files) {
    by_key[each.key].push_back(each.identity);
    if (each.is_name_data) names[each.key] += each.name + '\n';
  }
  std::vector<DataFileFact> kept;
  for (DataFileFact& each : files) {
    const std::vector<FileIdentity>& all = by_key[each.key];
    if (all.size() <= kMaxNamedFiles)
      kept.push_back(std::move(each));
    else if (std::ranges::find(kept, each.key, &DataFileFact::key) == kept.end())
      kept.push_back(
          {.key = each.key, .name = "all files", .identity = identity_with(identity_of_all(all), names[each.key])});
  }
  return kept;
}

}  // namespace

DataFacts data_facts_of(const Job& job, const std::string& tokenizer,
                        const std::function<void(double fraction)>& progress) {
  DataFacts facts;
  const std::vector<DataFileOfKey> files = data_files(job);
  for (size_t i = 0; i < files.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(files.size()));
    if (const auto identity = identity_of(files[i], job.data))
      facts.files.push_back({.key = files[i].key,
                             .name = name_of_path(files[i].path),
                             .identity = *identity,
                             .is_name_data = job.data.type == "clips" && files[i].key == "data.files"});
  }
  facts.files = without_long_lists(std::move(facts.files));
  facts.settings = {{"data.type", job.data.type},
                    {"data.validation_fraction", fmt::format("{}", job.data.validation_fraction)},
                    {"data.shuffle", fmt::format("{}", job.data.shuffle)}};
  if (!tokenizer.empty()) facts.settings["data.tokenizer"] = tokenizer;
  if (job.data.type == "stimuli")
    facts.settings["data.repetition_time"] = fmt::format("{}", job.data.stimuli.repetition_time);
  return facts;
}

std::vector<JobInput> inputs_of(const Job& job) {
  std::vector<JobInput> inputs;
  if (const job::DataKind& kind = job::data_kind(job.data.type); kind.from_files) {
    for (const std::filesystem::path& file : job.data.files) inputs.push_back({"one of data.files", file});
    Job copy = job;
    if (kind.paths)
      for (const job::DataPath& each : kind.paths(copy)) inputs.push_back({"one of the data's files", *each.path});
  }
  inputs.push_back({"data.tokenizer_file", job.data.tokenizer_file});
  if (job.checkpoint.resume != "auto" && job.checkpoint.resume != "never")
    inputs.push_back({"checkpoint.resume", job.checkpoint.resume});
  try {
    if (!job.checkpoint.directory.empty())
      for (const auto& [step, file] : checkpoints_in(job.checkpoint.directory))
        inputs.push_back({fmt::format("the checkpoint of step {}", step), file});
  } catch (const UserError&) {  // training reports a folder that cannot be listed
  }
  const ModelConfig& model = job.model;
  inputs.insert(inputs.end(), {{"model.weights", model.weights},
                               {"model.config", model.config},
                               {"model.llm.weights", model.llm_weights},
                               {"model.llm.config", model.llm_config},
                               {"model.vision.weights", model.vision_weights},
                               {"model.vision.config", model.vision_config}});
  std::erase_if(inputs, [](const JobInput& input) { return input.file.empty(); });
  return inputs;
}

}  // namespace plimsoll
