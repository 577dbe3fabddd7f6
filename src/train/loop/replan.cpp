#include "train/loop/replan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_up.h"
#include "device/backend.h"
#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "run/search/plan_target.h"

namespace plimsoll {
namespace {

// Returns "12MiB"; small amounts in KiB, so that they can be written in a job file.
std::string as_a_key_has_it(int64_t bytes) {
  const bool large = bytes >= 64 * MiB;
  return fmt::format("{}{}", bytes / (large ? MiB : KiB), large ? "MiB" : "KiB");
}

}  // namespace

PlanTarget replan_target(const Job& job, const PlannedStep& planned, const MemoryUnavailable& error) {
  const Plan& refused = planned.plan;
  const Backend& backend = backend_for(job.device);
  const bool one_memory = backend.shares_host_memory();
  const bool of_host = one_memory || error.owner() == MemoryUnavailable::Owner::host;
  const std::optional<int64_t> available = of_host ? current_host_memory() : backend.available_bytes();
  const int64_t most =
      std::min(less_margin(error.requested_bytes()), less_margin(available.value_or(error.requested_bytes())));
  if (!one_memory && of_host)
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower host_memory_budget to {}", as_a_key_has_it(most)));
  if (job.budget.device && one_memory && refused.host_bytes > 0)
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower memory_budget or host_memory_budget: here both are of the machine's "
                                        "memory, and together they may be {}",
                                        format_bytes(most)));
  // The budget includes the context and the libraries, which were not refused.
  const int64_t beside_arena = one_memory ? 0 : refused.peak_bytes - refused.arena_bytes;
  if (job.budget.device) {
    const std::string lower = as_a_key_has_it(most + beside_arena);
    if (parse_bytes(lower) < planned.minimum_budget_bytes)
      throw BudgetUnavailable(
          error, fmt::format("the job needs at least {}: free memory", format_bytes_up(planned.minimum_budget_bytes)),
          lower);
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower memory_budget to {}, or set it to auto", lower));
  }
  PlanTarget target = target_of(job);
  int64_t budget = std::max<int64_t>(1, most + beside_arena - (one_memory ? refused.host_bytes : 0));
  if (refused.budget.device_bytes() > 0)
    budget = std::min(budget, std::max<int64_t>(1, less_margin(refused.budget.device_bytes())));
  if (!target.budget.device || *target.budget.device > budget) {
    target.budget.device = budget;
    target.budget_reason = fmt::format("{}; a tenth of the available memory stays free", error.reason());
  }
  return target;
}

}  // namespace plimsoll
