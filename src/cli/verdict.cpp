#include "cli/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_up.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {

std::string verdict_of(const PlannedStep& planned) {
  const Plan& plan = planned.plan;
  const std::string peak = format_bytes(plan.peak_bytes);
  if (plan.budget.device_bytes() == 0) return fmt::format("needs {}; no budget is set", peak);
  const std::string budget = format_bytes(plan.budget.device_bytes());
  // A verdict that leaves out a GPU's context must say so in its own line: people read no further.
  const auto not_counted = std::ranges::find(plan.reasons, "not counted", &Reason::decision);
  const std::string limits = not_counted == plan.reasons.end() ? "" : "; " + not_counted->why;
  if (plan.fits) return fmt::format("fits: {} of {}{}", peak, budget, limits);
  // Two amounts may be equal after rounding; then the bytes are printed too.
  const auto exactly = [&](const std::string& text, int64_t bytes) {
    return peak == budget ? fmt::format("{} ({} bytes)", text, bytes) : text;
  };
  return fmt::format("does not fit: the peak is {}, the budget is {}; the minimum budget is {} ({} bytes){}",
                     exactly(peak, plan.peak_bytes), exactly(budget, plan.budget.device_bytes()),
                     format_bytes_up(planned.minimum_budget_bytes), planned.minimum_budget_bytes, limits);
}

std::string early_verdict_of(int64_t enough_bytes, int64_t budget_bytes) {
  return fmt::format("fits: {} of {} are enough; searching for the fastest plan", format_bytes_up(enough_bytes),
                     format_bytes(budget_bytes));
}

std::string peak_report(const PlannedStep& planned, const Screen& screen) {
  Table table({{.name = "buffer", .fit = Fit::middle, .min_width = 20},
               {"role"},
               {"size", Align::right},
               {"share", Align::right}},
              "Largest buffers at the peak");
  for (const Resident& resident : largest_at_peak(planned.plan, kResidentsShown)) {
    table.add_row({resident.label, std::string(name_of(resident.role)), format_bytes(resident.bytes),
                   percent_of(resident.bytes, planned.plan.peak_bytes)});
  }
  return fold(verdict_of(planned), screen.columns, 2) + "\n" + table.to_string(screen);
}

}  // namespace plimsoll::cli
