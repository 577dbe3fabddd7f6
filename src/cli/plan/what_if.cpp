#include "cli/plan/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/bytes_up.h"
#include "base/clock.h"
#include "cli/screen/progress.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "cli/screen/waiting.h"
#include "plimsoll/bytes.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

constexpr double kTimesThePlan = 3, kMinWhatIfSeconds = 10;

}  // namespace

WhatIf what_if(const std::filesystem::path& file, const std::vector<std::string>& overrides, const PlanTarget& target,
               const PlannedJob& base_plan, std::optional<double> seconds, const StopSignals& signals) {
  const double limit = seconds.value_or(std::max(kMinWhatIfSeconds, kTimesThePlan * base_plan.plan_seconds));
  const double end = seconds_now() + limit;
  WhatIf found;
  {
    Waiting waiting("planning smaller values");
    found.changes = model_variants(file, overrides, target, base_plan, [&](const ModelVariantsProgress& at) {
      waiting.say(fmt::format("{} of {} planned, now {}{}", at.done, at.total, at.change,
                              at.schedules > 1 ? fmt::format(", schedule {}", at.schedules) : ""));
      return signals.received() == 0 && seconds_now() < end;
    });
  }
  const std::vector<std::string>& left = found.changes.untried;
  if (left.empty()) return found;
  found.cut_short =
      fmt::format("{} of {} were planned", found.changes.planned.size(), found.changes.planned.size() + left.size());
  if (signals.received() != 0)
    found.cut_short += " before the interrupt";
  else
    // Each change takes about as long as the job's own plan.
    found.cut_short += fmt::format(" in {}{}; --what-if-seconds {:.0f} allows more", short_seconds(limit),
                                   seconds ? "" : " (three times the planning time of the job, at least 10 s)",
                                   std::ceil(limit + base_plan.plan_seconds * static_cast<double>(left.size())));
  found.cut_short += fmt::format("; not planned: {}", fmt::join(left, ", "));
  return found;
}

std::string what_if_table(const Job& job, const WhatIf& found, const Screen& screen) {
  Table table({{.name = "change", .fit = Fit::middle, .min_width = 20},
               {.drop = 2},
               {"fits"},
               {.name = "parameters", .align = Align::right, .drop = 1},
               {"minimum", Align::right},
               {"peak", Align::right},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}},
              "Smaller values of keys, each planned");
  for (const ModelVariant& each : found.changes.planned)
    table.add_row({each.change.empty() ? "none" : each.change, each.meaning, each.fits ? "yes" : "no",
                   short_count(static_cast<double>(each.parameters)), format_bytes_up(each.minimum_budget_bytes),
                   format_bytes(each.peak_bytes), each.fits ? short_seconds(each.step_seconds) : "-",
                   each.fits ? short_count(each.tokens_per_second) : "-"});
  std::string text = table.to_string(screen);
  if (!found.cut_short.empty()) text += "\n" + fold(found.cut_short, screen.columns, 2);
  return text;
}

Json what_if_json(const WhatIf& found) {
  Json list = Json::array();
  for (const ModelVariant& each : found.changes.planned)
    list.push_back({{"change", each.change},
                    {"meaning", each.meaning},
                    {"fits", each.fits},
                    {"parameters", each.parameters},
                    {"minimum_budget_bytes", each.minimum_budget_bytes},
                    {"peak_bytes", each.peak_bytes},
                    {"step_seconds", each.step_seconds},
                    {"units_per_second", each.tokens_per_second}});
  return list;
}

}  // namespace plimsoll::cli
