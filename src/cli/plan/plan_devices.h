// Several devices of the catalogue beside each other: which of them can train a job, how fast, with what settings.
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
  bool fits = false;  ///< on any of them
};

/// `target_for` gives what is planned for on a device of that name.
DevicesReport plan_devices(const Job& job, const std::vector<std::string>& names,
                           const std::function<PlanTarget(const std::string&)>& target_for, const Screen& screen);

}  // namespace plimsoll::cli
