// What a job file says of `model.type: video_llm`.
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"

namespace plimsoll::job {

ModelKind video_llm_kind() {
  return {.type = "video_llm",
          .meaning = "video frames into a language model",
          .keys = {},
          .check = [](const Job&, const Places&) {},
          .data_types = {"clips"},
          .origin = [](const Job&) { return std::map<std::string, std::string>{}; }};
}

}  // namespace plimsoll::job
