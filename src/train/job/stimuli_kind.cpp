// What a job file says of `data.type: stimuli`.
#include "train/job/data_kind.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {

DataKind stimuli_kind() {
  return {.type = "stimuli", .meaning = "video, audio and text beside the fMRI series recorded with them", .keys = {}};
}

}  // namespace plimsoll::job
