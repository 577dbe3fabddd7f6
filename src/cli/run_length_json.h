// Formats the length of a run as JSON.
#pragma once

#include <optional>

#include "cli/json_output.h"
#include "plimsoll/run_length.h"

namespace plimsoll::cli {

/// Returns {"steps", "training_samples", "steps_of_epochs", "warmup_steps", "schedule", "text"}; what is not known is
/// null.
Json run_length_json(const Job& job, const std::optional<RunLength>& length);

}  // namespace plimsoll::cli
