// What a job file says of `data.type: slices`.
#include "train/job/data_kind.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {

DataKind slices_kind() {
  return {.type = "slices", .meaning = "slices of volumes with anatomical labels", .keys = {}};
}

}  // namespace plimsoll::job
