// Reports the needs of smaller models, as a table and as JSON.
#pragma once

#include <optional>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "cli/stop_signals.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

struct WhatIf {
  ModelVariants changes;
  std::string cut_short;  ///< reason why not all changes were planned, and the remedy; empty: all were
};

/// Plans the changes for at most `seconds`. nullopt: three times as long as the job's own plan took, and at least ten
/// seconds. A signal ends it too. Prints its progress on standard error.
WhatIf what_if(const std::filesystem::path& file, const std::vector<std::string>& overrides, const PlanTarget& target,
               const PlannedJob& base_plan, std::optional<double> seconds, const StopSignals& signals);

std::string what_if_table(const Job& job, const WhatIf& found, const Screen& screen);
/// Returns [{"change", "meaning", "fits", "parameters", ...}, ...], the unchanged job first.
Json what_if_json(const WhatIf& found);

}  // namespace plimsoll::cli
