// Compares numbers of devices: the same job on 1, 2, 4, … devices.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/plan/plan_devices.h"

namespace plimsoll::cli {

/// Plans the job for each number of devices. `target_for` gives the target of that number. The JSON has a plan for each
/// number. Efficiency is the throughput per device, compared with that of the first number that fits.
DevicesReport plan_rank_counts(const Job& job, const std::vector<int64_t>& counts,
                               const std::function<PlanTarget(int64_t)>& target_for, const Screen& screen);

}  // namespace plimsoll::cli
