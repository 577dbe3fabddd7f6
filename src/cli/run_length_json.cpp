#include "cli/run_length_json.h"

namespace plimsoll::cli {
namespace {

Json json_or_null(const std::optional<int64_t>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json run_length_json(const Job& job, const std::optional<RunLength>& length) {
  return {{"steps", length ? Json(length->steps) : Json()},
          {"training_samples", length ? json_or_null(length->samples) : Json()},
          {"steps_of_epochs", length ? json_or_null(length->steps_of_epochs) : Json()},
          {"schedule_steps", length ? Json(length->schedule_steps) : Json()},
          {"warmup_steps", length ? Json(length->warmup_steps) : Json()},
          {"schedule", job.scheduler.name},
          {"text", describe_run_length(job, length)}};
}

}  // namespace plimsoll::cli
