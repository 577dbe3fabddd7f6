// Compares several devices of the catalogue: which of them can train a job, at what speed, with what settings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

struct DevicesReport {
  std::string table;
  Json json;          ///< a plan for each, with "gpu": its id
  bool fits = false;  ///< true if it fits on any of them
};

/// Plans the job on each device; `target_for` returns the target for a device name.
DevicesReport plan_devices(const Job& job, const std::vector<std::string>& names,
                           const std::function<PlanTarget(const std::string&)>& target_for, const Screen& screen);

}  // namespace plimsoll::cli
