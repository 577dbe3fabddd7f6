#include "cli/plan/plan_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cli/plan/plan_output.h"
#include "cli/plan/plan_ranks.h"
#include "cli/result_text.h"
#include "cli/screen/table.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
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
               {unit_of(job) + "/s", Align::right},
               {.name = "±", .align = Align::right, .drop = 5}});
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
      if (const double uncertainty = step_uncertainty(planned.settings.cost, plan.trace); uncertainty > 0)
        row.push_back(fmt::format("{:.0f} %", 100 * uncertainty));
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

namespace {

constexpr int64_t kMaxDevices = 1'000'000;

}  // namespace

void RankArguments::add_to(CLI::App& command) {
  if (CLI::Option* const other = command.get_option_no_throw("--devices")) command.remove_option(other);
  command
      .add_option("--devices", counts,
                  "plan for one of N devices that train together; several numbers: compare them, one line each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N[,N...]")
      ->check(between<int64_t>(1, kMaxDevices));
  command
      .add_option("--link", link,
                  "link between the devices of a machine (list: plimsoll gpus --links); default: the usual link of the "
                  "device")
      ->type_name("NAME")
      ->check(not_empty());
  command
      .add_option("--devices-per-machine", devices_per_machine,
                  "devices of one machine; more devices are reached over the network (default 8)")
      ->type_name("N")
      ->check(between<int64_t>(1, kMaxDevices));
  command
      .add_option("--network", network,
                  "network between machines, with one adapter for each device (default infiniband-hdr)")
      ->type_name("NAME")
      ->check(not_empty());
}

PlanTarget RankArguments::target_for(PlanTarget target, int64_t devices) const {
  const bool none_is_several = devices == 1 && std::ranges::none_of(counts, [](int64_t count) { return count > 1; });
  if (none_is_several && !(link.empty() && network.empty() && !devices_per_machine))
    throw UserError(
        "--link, --network and --devices-per-machine are of several devices, and the plan is for one; add --devices N");
  PeerTopology topology;
  topology.ranks = devices;
  topology.link = link;
  if (!network.empty()) topology.network = network;
  topology.devices_per_machine = devices_per_machine.value_or(topology.devices_per_machine);
  return with_ranks(std::move(target), topology);
}

}  // namespace plimsoll::cli
