// What a job file says of `data.type: slices`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "train/job/data_kind.h"
#include "train/job/held_out_keys.h"
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"
#include "train/job/tokenizer_keys.h"

namespace plimsoll::job {
namespace {

using S = SlicesConfig;

Key text(std::string key, std::string S::*member, std::string meaning) {
  const std::string usual = S{}.*member;
  return {{std::move(key), "text", "\"" + usual + "\"", std::move(meaning)},
          [=](const Value& value, Job& job) { job.data.slices.*member = read_text(value, "text"); }};
}

/// How often the structure's name stands in it.
size_t places_for_names(const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += 2) ++count;
  return count;
}

void check_slices(const Job& job, const Places& places) {
  const S& slices = job.data.slices;
  if (job.data.files.empty())
    refuse(places.of({"data.type"}),
           "data.files is missing; name NIfTI files of images, for example files: [brain.nii.gz]");
  if (slices.labels.size() != job.data.files.size())
    refuse(places.of({"data.labels", "data.files"}),
           fmt::format("data.labels names {} files and data.files {}; each image has a file of labels, in the same "
                       "order",
                       slices.labels.size(), job.data.files.size()));
  if (slices.label_names.empty())
    refuse(places.of({"data.type"}),
           "data.label_names is missing; name a text file of lines such as '37 left hippocampus'");
  if (slices.structures.empty())
    refuse(places.of({"data.structures"}), "data.structures is empty; '*' stands for all of them");
  if (places_for_names(slices.prompt) != 1)
    refuse(places.of({"data.prompt"}),
           "data.prompt must have {} once, where the structure's name is put, as in \"Segment the {}.\"");
  if (places_for_names(slices.answer) > 1)
    refuse(places.of({"data.answer"}), "data.answer may have {} once, where the structure's name is put");
  check_tokenizer(job, places);
  check_held_out(job, places);
}

std::map<std::string, std::string> origin_of_slices(const Job& job) {
  const S& slices = job.data.slices;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  std::map<std::string, std::string> origin = origin_of_held_out(job);
  if (slices.augment > 0) origin["data.augment"] = text(slices.augment);
  origin.insert({{"data.tokenizer", job.data.tokenizer},
                 {"data.axis", slices.axis},
                 {"data.structures", joined(slices.structures, ", ")},
                 {"data.min_pixels", text(slices.min_pixels)},
                 {"data.validation_block", text(slices.validation_block)},
                 {"data.validation_gap", text(slices.validation_gap)},
                 {"data.prompt", slices.prompt},
                 {"data.answer", slices.answer}});
  return origin;
}

}  // namespace

DataKind slices_kind() {
  DataKind kind;
  kind.type = "slices";
  kind.meaning = "slices of volumes with anatomical labels";
  kind.keys = {
      paths("data.files", &DataConfig::files, "images, NIfTI files (.nii, .nii.gz)"),
      paths("data.labels", &S::labels,
            "NIfTI files of whole numbers, one for each of data.files on the same grid: what each voxel belongs to"),
      path("data.label_names", &S::label_names, "(required)",
           "a text file of lines with a label's number and its name"),
      {{"data.structures", "pattern | list of patterns", "['*']", "the names of the structures that are asked for"},
       [](const Value& value, Job& job) {
         job.data.slices.structures = read_patterns(value, "a pattern such as 'left *', or a list of them");
       }},
      word("data.axis", &S::axis, {"x", "y", "z"}, "of the volume: slices lie across it"),
      integer("data.min_pixels", &S::min_pixels, {1, int64_t{1} << 28},
              "of a structure in a slice, at model.image_size, to be a sample"),
      integer("data.validation_block", &S::validation_block, {1, 1 << 20},
              "neighbouring slices that are held out together; data.validation_fraction says how many blocks"),
      integer("data.validation_gap", &S::validation_gap, {0, 1 << 20, /*none=*/true},
              "slices on either side of a held-out block that are left out: what is next to it is not trained on"),
      number(
          "data.augment", &S::augment, {.least = 0, .most = 0.5, .none = true},
          "what is trained on is moved by up to this share of the image's side, turned by up to so many radians, its "
          "size and contrast changed by up to this share, drawn anew every time; 0: as it is"),
      text("data.prompt", &S::prompt, "what the language model reads; {} stands for the structure's name"),
      text("data.answer", &S::answer, "how it is to go on; model.loss.text weighs its loss"),
  };
  kind.keys.front().help.default_value = "(required)";
  kind.keys[1].help.default_value = "(required)";
  std::ranges::move(held_out_keys(), std::back_inserter(kind.keys));
  std::ranges::move(tokenizer_keys(), std::back_inserter(kind.keys));
  kind.check = check_slices;
  kind.paths = [](Job& job) {
    std::vector<std::filesystem::path*> all = {&job.data.slices.label_names};
    for (std::filesystem::path& file : job.data.slices.labels) all.push_back(&file);
    return all;
  };
  kind.origin = origin_of_slices;
  return kind;
}

}  // namespace plimsoll::job
