#include "cli/train/start_advice.h"

#include <fmt/format.h>

#include <vector>

#include "cli/plan/plan_advice.h"
#include "cli/screen/waiting.h"
#include "plimsoll/plan_job.h"

namespace plimsoll::cli {

void print_changes_within(const std::string& budget, const JobArguments& arguments, const Screen& screen) {
  const std::string lower = "memory_budget=" + budget;
  const Job job = arguments.read_silently({lower});
  PlanTarget target = target_of(job);
  const PlannedJob planned = [&] {
    const Waiting waiting("planning");
    return plan_job(job, target);
  }();
  if (planned.plan.fits) return;
  // All further plans use the times of this one.
  target.cost = planned.settings.cost;
  std::vector<std::string> overrides = arguments.all_overrides();
  overrides.push_back(lower);
  FoundAdvice found = advice_within({}, 0, arguments.file, overrides, target, planned, {});
  // With its own budget the job with the change might be planned for more memory than there is.
  for (Advice& each : found.search.found) each.overrides.push_back(lower);
  arguments.output.print(
      advice_text(found, job, screen, fmt::format("plimsoll plan with {} and --advice full", lower)));
}

}  // namespace plimsoll::cli
