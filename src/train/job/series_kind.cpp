// What a job file says of `data.type: series`.
#include "train/job/data_kind.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {

DataKind series_kind() {
  return {.type = "series", .meaning = "sequences of vectors with a class each", .keys = {}};
}

}  // namespace plimsoll::job
