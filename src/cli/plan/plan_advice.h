// plan: what would make a job fit that does not, as text and as JSON, and how long is spent on it.
#pragma once

#include <optional>
#include <string>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/plan_job.h"

namespace plimsoll::cli {

/// `--advice none|fast|full|SECONDS`.
struct AdviceTime {
  bool wanted = true;
  bool fast = true;               ///< until ten seconds after the command began, three seconds at least
  std::optional<double> seconds;  ///< as said; empty and not fast: no limit
};

/// Why `text` is no --advice; empty: it is one.
std::string problem_of_advice_time(const std::string& text);
AdviceTime advice_time_of(const std::string& text);

struct FoundAdvice {
  AdviceSearch search;
  std::optional<double> limit_seconds;  ///< empty: none
  double seconds = 0;                   ///< that the search took
  bool interrupted = false;             ///< by a signal: nothing else is begun
};

/// Looks for changes that fit as long as `time` allows, `elapsed` seconds after the command began, or until Ctrl-C (or
/// SIGTERM, SIGHUP). Where it stands is told on standard error.
FoundAdvice advice_within(const AdviceTime& time, double elapsed, const std::filesystem::path& file,
                          const std::vector<std::string>& overrides, const PlanTarget& target,
                          const PlannedJob& as_it_is, std::optional<PlanTarget> without_own_budget);

std::string advice_text(const FoundAdvice& found, const Job& job, const Screen& screen);

/// [{"change", "overrides", "meaning", "peak_bytes", "step_seconds", "units_per_second"}, …]
Json advice_json(const AdviceSearch& search);
/// {"complete", "limit_seconds", "seconds", "planned", "not_planned"}
Json advice_search_json(const FoundAdvice& found);

}  // namespace plimsoll::cli
