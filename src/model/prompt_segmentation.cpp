#include "plimsoll/error.h"
#include "plimsoll/models.h"

namespace plimsoll {

Step prompt_segmentation_step(const Job&, int64_t) {
  throw UserError("model.type prompt_segmentation cannot be made yet");
}

}  // namespace plimsoll
