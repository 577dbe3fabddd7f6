// Compares several devices of the catalogue, and numbers of devices (1, 2, 4, …), for one job. Declares --devices,
// --link and the other options for several devices.
#pragma once

#include <CLI/App.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// A comparison of devices, or of numbers of devices: which of them can train a job, at what speed, with what settings.
struct DevicesReport {
  std::string table;
  Json json;          ///< a plan for each, with "gpu": its id
  bool fits = false;  ///< true if it fits on any of them
};

/// Plans the job on each device; `target_for` returns the target for a device name.
DevicesReport plan_devices(const Job& job, const std::vector<std::string>& names,
                           const std::function<PlanTarget(const std::string&)>& target_for, const Screen& screen);

/// Plans the job for each number of devices. `target_for` gives the target of that number. The JSON has a plan for each
/// number. Efficiency is the throughput per device, compared with that of the first number that fits.
DevicesReport plan_rank_counts(const Job& job, const std::vector<int64_t>& counts,
                               const std::function<PlanTarget(int64_t)>& target_for, const Screen& screen);

/// The options of `plimsoll plan` for several devices: --devices, --link and others.
struct RankArguments {
  std::vector<int64_t> counts;  ///< --devices; empty: Job::devices
  std::string link, network;    ///< empty: the default link and network
  std::optional<int64_t> devices_per_machine;

  /// Adds the options. An option --devices that the command already has is replaced: here it takes several numbers.
  void add_to(CLI::App& command);

  /// Returns `target` for `devices` ranks. Throws UserError for an unknown link, and if a link is named for one device.
  PlanTarget target_for(PlanTarget target, int64_t devices) const;
};

}  // namespace plimsoll::cli
