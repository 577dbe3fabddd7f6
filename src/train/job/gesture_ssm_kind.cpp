// What a job file says of `model.type: gesture_ssm`.
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"

namespace plimsoll::job {

ModelKind gesture_ssm_kind() {
  return {.type = "gesture_ssm",
          .meaning = "bidirectional state-space layers over sparse point sequences",
          .keys = {},
          .check = [](const Job&, const Places&) {},
          .data_types = {"series"},
          .origin = [](const Job&) { return std::map<std::string, std::string>{}; }};
}

}  // namespace plimsoll::job
