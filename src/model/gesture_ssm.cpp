#include "plimsoll/error.h"
#include "plimsoll/models.h"

namespace plimsoll {

Step gesture_ssm_step(const Job&, int64_t) {
  throw UserError("model.type gesture_ssm cannot be made yet");
}

}  // namespace plimsoll
