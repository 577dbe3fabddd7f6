// Formats choices and their reasons as JSON, for both `plan` and `train`.
#pragma once

#include "cli/json_output.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns {"micro_batch_size", "gradient_accumulation_steps", "last_micro_batch", "gradient_checkpointing",
/// "offload_saved_bytes", "offload_state_bytes", "offload_gradient_bytes", "offload_parameter_bytes", "host_updates",
/// "precision"}.
Json choices_json(const PlannedJob& planned);

/// Returns [{"decision", "why"}, …].
Json reasons_json(const Plan& plan);

}  // namespace plimsoll::cli
