// Defines the keys of `data.type: pictures`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "job/keys/data_kind.h"
#include "job/keys/held_out_keys.h"
#include "job/keys/key_kinds.h"
#include "job/keys/model_kind.h"
#include "job/keys/structure_keys.h"
#include "job/keys/tokenizer_keys.h"

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

std::map<std::string, std::string> origin_of_pictures(const Job& job) {
  const P& pictures = job.data.pictures;
  std::map<std::string, std::string> origin = origin_of_held_out(job);
  origin.merge(origin_of_structures(job));
  origin.insert({{"data.tokenizer", job.data.tokenizer},
                 {"data.images", pictures.images.filename().string()},
                 {"data.masks", pictures.masks.filename().string()},
                 {"data.list", pictures.list.filename().string()},
                 {"data.normalize", pictures.normalize}});
  return origin;
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
  kind.origin = origin_of_pictures;
  kind.shared_keys = shared_keys_of_structures;
  return kind;
}

}  // namespace plimsoll::job
