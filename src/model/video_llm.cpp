#include "plimsoll/error.h"
#include "plimsoll/models.h"

namespace plimsoll {

Step video_llm_step(const Job&, int64_t) {
  throw UserError("model.type video_llm cannot be made yet");
}

}  // namespace plimsoll
