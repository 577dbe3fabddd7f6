// Declares the search for changes that would make a job fit, as text and as JSON, its time limit, and the report of
// the needs of smaller models.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "cli/process.h"
#include "cli/screen/terminal.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Value of `--advice none|fast|full|SECONDS`.
struct AdviceTime {
  bool wanted = true;
  bool fast = true;               ///< until ten seconds after the command began, at least three seconds
  std::optional<double> seconds;  ///< limit as given; empty and not fast: no limit
};

/// Returns the reason why `text` is not a value of --advice; empty: it is valid.
std::string problem_of_advice_time(const std::string& text);
AdviceTime advice_time_of(const std::string& text);

struct FoundAdvice {
  AdviceSearch search;
  std::optional<double> limit_seconds;  ///< empty: none
  double seconds = 0;                   ///< duration of the search
  bool interrupted = false;             ///< a signal arrived: the command starts no further work
};

/// Searches for changes that fit as long as `time` allows, `elapsed` seconds after the command began, or until Ctrl-C
/// (or SIGTERM, SIGHUP). Prints its progress on standard error.
FoundAdvice advice_within(const AdviceTime& time, double elapsed, const std::filesystem::path& file,
                          const std::vector<std::string>& overrides, const PlanTarget& target,
                          const PlannedJob& base_plan, std::optional<PlanTarget> without_job_budget);

/// Returns the changes as text. `longer`: what to type to search for longer.
std::string advice_text(const FoundAdvice& found, const Job& job, const Screen& screen,
                        std::string_view longer = "--advice full or --advice SECONDS");

/// Returns [{"change", "overrides", "meaning", "peak_bytes", "step_seconds", "units_per_second"}, …].
Json advice_json(const AdviceSearch& search);
/// Returns {"complete", "limit_seconds", "seconds", "planned", "not_planned"}.
Json advice_search_json(const FoundAdvice& found);

/// The needs of smaller models.
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
