// What a job file says of `data.type: clips`.
#include "train/job/data_kind.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {

DataKind clips_kind() {
  return {.type = "clips", .meaning = "clips of video files", .keys = {}};
}

}  // namespace plimsoll::job
