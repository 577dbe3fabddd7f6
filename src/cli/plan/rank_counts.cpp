#include "cli/plan/rank_counts.h"

#include <fmt/format.h>

#include "base/bytes_up.h"
#include "cli/batch_words.h"
#include "cli/plan/plan_json.h"
#include "cli/plan/plan_ranks.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

DevicesReport plan_rank_counts(const Job& job, const std::vector<int64_t>& counts,
                               const std::function<PlanTarget(int64_t)>& target_for, const Screen& screen) {
  Table table({{"devices", Align::right},
               {"strategy"},
               {"fits"},
               {"minimum", Align::right},
               {.name = "peak", .align = Align::right, .drop = 2},
               {"step", Align::right},
               {.name = "exchanges", .align = Align::right, .drop = 1},
               {unit_of(job) + "/s", Align::right},
               {"per device", Align::right},
               {.name = "efficiency", .align = Align::right, .drop = 3}},
              "Numbers of devices; bytes are those of one device");
  DevicesReport report;
  report.json = Json::array();
  double base = 0;  // units per second and device, for the first number that fits
  int64_t base_count = 0;
  std::string links;
  for (const int64_t count : counts) {
    const PlannedJob planned = plan_job(job, target_for(count));
    const Plan& plan = planned.plan;
    report.fits = report.fits || plan.fits;
    Json json = plan_json(job, planned);
    json["efficiency"] = nullptr;
    const std::string strategy = strategy_of(job, planned);
    std::vector<std::string> row{std::to_string(count), strategy.empty() ? "-" : strategy, plan.fits ? "yes" : "no",
                                 format_bytes_up(planned.minimum_budget_bytes), format_bytes(plan.peak_bytes)};
    const StepExchanges exchanges = exchanges_of(planned);
    if (plan.fits && count > 1 && exchanges.count == 0) {
      row.push_back(short_seconds(planned.step_seconds));
      row.emplace_back("not known");
    } else if (plan.fits) {
      if (base == 0) {
        base = planned.tokens_per_second;
        base_count = count;
      }
      json["efficiency"] = planned.tokens_per_second / base;
      row.insert(row.end(), {short_seconds(planned.step_seconds), short_seconds(exchanges.seconds),
                             short_count(units_per_second_of_all(planned)), short_count(planned.tokens_per_second),
                             fmt::format("{:.1f} %", 100 * planned.tokens_per_second / base)});
    }
    table.add_row(row);
    report.json.push_back(std::move(json));
    if (count > 1)
      links += fold(fmt::format("{} devices: {}; effective batch {}", count, planned.settings.link,
                                effective_batch_of(planned.settings)),
                    screen.columns, 2);
  }
  report.table = table.to_string(screen);
  if (base_count > 0)
    report.table += "\n" + fold(fmt::format("Efficiency: {}/s per device, compared with {} device{}.", unit_of(job),
                                            base_count, base_count == 1 ? "" : "s"),
                                screen.columns);
  if (!links.empty()) report.table += "\nLinks\n\n" + links;
  return report;
}

}  // namespace plimsoll::cli
