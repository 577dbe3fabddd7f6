// Defines the keys of `data.type: slices` and of `data.type: pictures`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/shared_data_keys.h"

namespace plimsoll::job {
namespace {

using S = SlicesConfig;

void check_slices(const Job& job, const KeyLocations& locations) {
  const S& slices = job.data.slices;
  if (job.data.files.empty())
    refuse(locations.of({"data.type"}),
           "data.files is missing; name NIfTI files of images, for example data.files: [brain.nii.gz]");
  if (slices.labels.size() != job.data.files.size())
    refuse(locations.of({"data.labels", "data.files"}),
           fmt::format("data.labels names {} files and data.files {}; each image has a file of labels, in the same "
                       "order",
                       slices.labels.size(), job.data.files.size()));
  if (slices.label_names.empty())
    refuse(locations.of({"data.type"}),
           "data.label_names is missing; name a text file of lines such as '37 left hippocampus'");
  check_structures(job, locations, /*named=*/true);
  check_tokenizer(job, locations);
  check_held_out(job, locations);
}

}  // namespace

DataKind slices_kind() {
  DataKind kind;
  kind.type = "slices";
  kind.meaning = "slices of volumes with anatomical labels";
  kind.keys = {
      paths("data.files", &DataConfig::files, "images, NIfTI files (.nii, .nii.gz)"),
      paths("data.labels", &S::labels,
            "NIfTI files with an integer label per voxel, one for each of data.files on the same grid"),
      path("data.label_names", &S::label_names, "(required)",
           "a text file of lines with a label's number and its name"),
      word("data.axis", &S::axis, {"x", "y", "z"}, "axis of the volume that slices are perpendicular to"),
      integer("data.validation_block", &S::validation_block, {1, 1 << 20},
              "neighboring slices that are held out together; data.validation_fraction sets the number of blocks"),
      integer("data.validation_gap", &S::validation_gap, {0, 1 << 20, /*none=*/true},
              "slices on either side of a held-out block that are not used for training"),
  };
  kind.keys.front().help.default_value = "(required)";
  kind.keys[1].help.default_value = "(required)";
  std::ranges::move(structure_keys(), std::back_inserter(kind.keys));
  std::ranges::move(held_out_keys(), std::back_inserter(kind.keys));
  std::ranges::move(tokenizer_keys(), std::back_inserter(kind.keys));
  kind.check = check_slices;
  kind.paths = [](Job& job) {
    std::vector<DataPath> all;
    for (std::filesystem::path& file : job.data.slices.labels) all.push_back({"data.labels", &file});
    all.push_back({"data.label_names", &job.data.slices.label_names});
    return all;
  };
  kind.origin = [](const Job& job) {
    const S& slices = job.data.slices;
    std::vector<Setting> settings = structure_settings(job);
    settings.insert(settings.end(), {{"data.test_fraction", job.data.test_fraction, 0.0},
                                     {"data.tokenizer", job.data.tokenizer},
                                     {"data.axis", slices.axis},
                                     {"data.validation_block", slices.validation_block},
                                     {"data.validation_gap", slices.validation_gap},
                                     {"data.augment", slices.augment, 0.0}});
    return settings;
  };
  kind.shared_keys = shared_keys_of_structures;
  return kind;
}

}  // namespace plimsoll::job

namespace plimsoll {

inline PicturesConfig& part(Job& job, PicturesConfig*) {
  return job.data.pictures;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

using P = PicturesConfig;

void check_pictures(const Job& job, const KeyLocations& locations) {
  const P& pictures = job.data.pictures;
  const bool folders = !pictures.images.empty() || !pictures.masks.empty();
  if (folders && !pictures.list.empty())
    refuse(locations.of({"data.list", "data.images", "data.masks"}),
           "data.list names pictures and masks, and so do data.images and data.masks; remove data.list, or data.images "
           "and data.masks");
  if (pictures.list.empty() && pictures.images.empty())
    refuse(locations.of({"data.type"}),
           "data.images is missing; set data.images: FOLDER and data.masks: FOLDER for pictures and their masks, or "
           "data.list: FILE");
  if (pictures.list.empty() && pictures.masks.empty())
    refuse(locations.of({"data.images"}),
           "data.masks is missing; set data.masks: FOLDER, which has the masks, each called as its picture is");
  check_structures(job, locations, /*named=*/false);
  check_tokenizer(job, locations);
  check_held_out(job, locations);
}

}  // namespace

DataKind pictures_kind() {
  DataKind kind;
  kind.type = "pictures";
  kind.meaning = "pictures and masks in PNG and JPEG files";
  kind.keys = {
      path("data.images", &P::images, "(none)", "folder of pictures (.png, .jpg)"),
      path("data.masks", &P::masks, "(none)",
           "folder of masks, each with the name of its picture; or a folder with one such folder per structure"),
      path("data.list", &P::list, "(none)",
           "instead of data.images and data.masks: a table (.csv) or JSON lines (.jsonl) of image, mask and, "
           "optionally, structure, value, "
           "prompt, answer, split"),
      path("data.label_names", &SlicesConfig::label_names, "(none)",
           "a text file of lines with a number of the masks and its structure's name; none: all that is not 0 is the "
           "structure that data.structures names"),
      word("data.normalize", &P::normalize, {"picture", "imagenet"},
           "picture: normalization of each picture to mean 0 and deviation 1; imagenet: normalization by the mean and "
           "deviation of ImageNet, as pretrained encoders expect"),
  };
  std::ranges::move(structure_keys(), std::back_inserter(kind.keys));
  std::ranges::move(held_out_keys(), std::back_inserter(kind.keys));
  std::ranges::move(tokenizer_keys(), std::back_inserter(kind.keys));
  kind.check = check_pictures;
  kind.paths = [](Job& job) -> std::vector<DataPath> {
    P& pictures = job.data.pictures;
    return {{"data.images", &pictures.images},
            {"data.masks", &pictures.masks},
            {"data.list", &pictures.list},
            {"data.label_names", &job.data.slices.label_names}};
  };
  kind.origin = [](const Job& job) {
    const P& pictures = job.data.pictures;
    std::vector<Setting> settings = structure_settings(job);
    settings.insert(settings.end(), {{"data.test_fraction", job.data.test_fraction, 0.0},
                                     {"data.tokenizer", job.data.tokenizer},
                                     {"data.images", pictures.images},
                                     {"data.masks", pictures.masks},
                                     {"data.list", pictures.list},
                                     {"data.normalize", pictures.normalize},
                                     {"data.augment", job.data.slices.augment, 0.0}});
    return settings;
  };
  kind.shared_keys = shared_keys_of_structures;
  return kind;
}

}  // namespace plimsoll::job
