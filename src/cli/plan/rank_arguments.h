// Declares --devices, --link and the other options of `plimsoll plan` for several devices.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/train_job.h"

namespace plimsoll::cli {

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
