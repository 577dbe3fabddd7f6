#include "cli/plan_devices.h"

#include <fmt/format.h>

#include "cli/plan_report_json.h"
#include "cli/plan_text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "report/table.h"
#include "train/job_units.h"

namespace plimsoll::cli {

DevicesReport plan_devices(const Job& job, const std::vector<std::string>& names,
                           const std::function<PlanTarget(const std::string&)>& target_for, bool terminal) {
  Table table({{"device"},
               {"memory", Align::right},
               {"fits"},
               {"peak", Align::right},
               {"least", Align::right},
               {"precision"},
               {"micro batch", Align::right},
               {"recomputed", Align::right},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}});
  DevicesReport report;
  report.json = Json::array();
  for (const std::string& gpu : names) {
    const DeviceSpec& device = require_device(gpu);
    const PlannedJob planned = plan_job(job, target_for(gpu));
    const Plan& plan = planned.plan;
    report.fits = report.fits || plan.fits;
    std::vector<std::string> row{device.name, format_bytes(plan.budget_bytes), plan.fits ? "yes" : "no",
                                 format_bytes(plan.peak_bytes), format_bytes(plan.minimum_budget_bytes)};
    if (plan.fits) {
      const StepTime& time = plan.time;
      row.insert(row.end(), {std::string(name_of(planned.settings.precision)), micro_batches_in_words(planned.settings),
                             fmt::format("{:.1f} %", 100 * time.recompute_share()), short_seconds(planned.step_seconds),
                             short_count(planned.tokens_per_second)});
    }
    table.add_row(row);
    Json json = plan_json(job, planned);
    json["gpu"] = device.id;
    report.json.push_back(std::move(json));
  }
  report.table = table.to_string(terminal);
  return report;
}

}  // namespace plimsoll::cli
