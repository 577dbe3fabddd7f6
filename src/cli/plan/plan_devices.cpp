#include "cli/plan/plan_devices.h"

#include <fmt/format.h>

#include "base/bytes_up.h"
#include "cli/batch_words.h"
#include "cli/plan/plan_json.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

DevicesReport plan_devices(const Job& job, const std::vector<std::string>& names,
                           const std::function<PlanTarget(const std::string&)>& target_for, const Screen& screen) {
  Table table({{.name = "device", .fit = Fit::end, .min_width = 16},
               {"memory", Align::right},
               {"fits"},
               {"peak", Align::right},
               {.name = "minimum", .align = Align::right, .drop = 1},
               {.name = "precision", .drop = 2},
               {.name = "micro batch", .align = Align::right, .drop = 3},
               {.name = "recomputed", .align = Align::right, .drop = 4},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}});
  DevicesReport report;
  report.json = Json::array();
  std::string batch, remarks;
  bool job_limits = false;  // true: on a device that has more memory than the job's budget, and enough
  for (const std::string& gpu : names) {
    const DeviceSpec& device = require_device(gpu);
    const PlanTarget target = target_for(gpu);
    const PlannedJob planned = plan_job(job, target);
    const Plan& plan = planned.plan;
    job_limits |= job.budget.device && target.budget.device == job.budget.device &&
                  planned.minimum_budget_bytes <= *target_of(device).budget.device;
    report.fits = report.fits || plan.fits;
    std::vector<std::string> row{device.name, format_bytes(plan.budget.device_bytes()), plan.fits ? "yes" : "no",
                                 format_bytes(plan.peak_bytes), format_bytes_up(planned.minimum_budget_bytes)};
    if (plan.fits) {
      const StepTime& time = plan.time;
      row.insert(row.end(), {std::string(name_of(planned.settings.precision)), describe_micro_batches(planned.settings),
                             fmt::format("{:.1f} %", 100 * time.recompute_share()), short_seconds(planned.step_seconds),
                             short_count(planned.tokens_per_second)});
    }
    table.add_row(row);
    // The effective batch is the same on all devices; micro batches may differ, and are in the table.
    batch = fmt::format("effective batch {}", effective_batch_of(planned.settings));
    if (planned.settings.ranks.count > 1)
      batch += fmt::format("; figures are those of one of {} devices", planned.settings.ranks.count);
    if (!planned.settings.slow_matmul_note.empty())
      remarks += fold(fmt::format("{}: {}", device.name, planned.settings.slow_matmul_note), screen.columns, 2);
    Json json = plan_json(job, planned);
    json["gpu"] = device.id;
    report.json.push_back(std::move(json));
  }
  report.table = fold(batch, screen.columns, 2) + "\n" + table.to_string(screen);
  if (!remarks.empty()) report.table += "\n" + remarks;
  if (!report.fits && job_limits)
    report.table += "\n" + fold(fmt::format("The job's memory_budget of {} is too small. With memory_budget=auto the "
                                            "budget is the memory of each device.",
                                            format_bytes(*job.budget.device)),
                                screen.columns);
  return report;
}

}  // namespace plimsoll::cli
