// What smaller models would need, as a table and as JSON.
#pragma once

#include <optional>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "cli/stop_signals.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

struct WhatIf {
  ModelChanges changes;
  std::string cut_short;  ///< why not all were planned, and what allows more; empty: all were
};

/// Plans the changes for `seconds` at most; not said: three times as long as the job's own plan took, and ten seconds
/// at least. A signal ends it too. Where it stands is told on standard error.
WhatIf what_if(const std::filesystem::path& file, const std::vector<std::string>& overrides, const PlanTarget& target,
               const PlannedJob& as_it_is, std::optional<double> seconds, const StopSignals& signals);

std::string what_if_table(const Job& job, const WhatIf& found, const Screen& screen);
/// [{"change", "meaning", "fits", "parameters", ...}, ...], the job as it is first.
Json what_if_json(const WhatIf& found);

}  // namespace plimsoll::cli
