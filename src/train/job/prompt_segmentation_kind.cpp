// What a job file says of `model.type: prompt_segmentation`.
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"

namespace plimsoll::job {

ModelKind prompt_segmentation_kind() {
  return {.type = "prompt_segmentation",
          .meaning = "an image and a prompt to a mask",
          .keys = {},
          .check = [](const Job&, const Places&) {},
          .data_types = {"slices"},
          .origin = [](const Job&) { return std::map<std::string, std::string>{}; }};
}

}  // namespace plimsoll::job
