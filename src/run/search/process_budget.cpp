#include "run/search/process_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/measurement.h"
#include "base/process.h"
#include "base/text.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "run/search/open_choices.h"

namespace plimsoll {
namespace {

// Each plan of the same step leaves less in the planner's caches than the one before.
constexpr int kPlans = 4;
// Steps, evaluations and checkpoints add heap, stacks of threads, pages of programs that are used for the first time,
// and pieces of files to the arena. 40 random jobs took 2 to 4 MiB, one resumed run 6.
constexpr int64_t kOfSteps = 6 * MiB;
// A small budget leaves no room to try some ops, whose programs and scratch are then not counted.
constexpr int64_t kUntried = 8 * MiB;

// Returns the target with at most `room` bytes for the arenas that are in the machine's memory, and for measurements.
// On the CPU both arenas are, and offload to the second one frees nothing: it gets what a stated device budget leaves.
PlanTarget bounded(PlanTarget target, int64_t limit, int64_t room) {
  const bool on_cpu = target.device == "cpu";
  room = std::max<int64_t>(1, room);
  const int64_t of_device = on_cpu ? std::min(target.budget.device.value_or(room), room) : 0;
  target.budget.process = limit;
  target.budget.host = std::min(target.budget.host, room - of_device);
  if (target.measuring || on_cpu) {
    MeasureLimits limits;
    if (target.measuring)
      limits = target.measuring->limits();
    else
      limits = {.bytes = std::numeric_limits<int64_t>::max(), .seconds = std::numeric_limits<double>::infinity()};
    limits.bytes = std::min(limits.bytes, room);
    target.measuring = std::make_shared<MeasureAllowance>(limits);
  }
  if (!on_cpu || target.budget.device == of_device) return target;
  target.budget.device = of_device;
  target.budget_reason = fmt::format(
      "process_budget is {}; the program, its libraries, the planner and what is allocated later take {} of "
      "it",
      format_bytes(limit), format_bytes(std::max<int64_t>(0, limit - of_device)));
  return target;
}

}  // namespace

int64_t process_limit_of(const Budget& budget, int64_t sharing) {
  if (budget.process.value_or(0) > 0) return *budget.process;
  const std::optional<int64_t> available = current_host_memory();
  if (!available)
    throw UserError("process_budget: the system does not say how much memory is available; state the bytes");
  const int64_t limit = resident_memory().now + less_margin(*available) / std::max<int64_t>(1, sharing);
  const std::optional<int64_t> of_group = control_group_memory();
  return of_group ? std::min(limit, *of_group / std::max<int64_t>(1, sharing)) : limit;
}

int64_t later_bytes_of(const ResolvedSettings& settings) {
  return kOfSteps + settings.prefetched_batch_bytes;
}

void require_process_room(const Budget& budget, int64_t bytes, const std::string& what, const std::string& advice) {
  if (!budget.process) return;
  return_large_blocks();
  const int64_t limit = process_limit_of(budget);
  release_free_memory();
  int64_t least = resident_memory().now + kOfSteps + bytes;
  if (least > limit) {
    least += MiB;  // the next process is not the same to the page
    throw UserError(
        fmt::format("does not fit: {} takes {} beside the {} that the process has resident, and process_budget "
                    "is {}; the minimum is {} ({} bytes); {}",
                    what, format_bytes_up(bytes), format_bytes(resident_memory().now), format_bytes(limit),
                    format_bytes_up(least), least, advice),
        UserError::Kind::does_not_fit);
  }
}

bool is_tight(const Budget& budget) {
  return budget.process && resident_memory().now > *budget.process / 4 * 3;
}

PlannedTraining plan_within_process(const PlanTarget& target,
                                    const std::function<PlannedTraining(const PlanTarget&)>& plan) {
  if (!target.budget.process || !target.is_local) return plan(target);
  return_large_blocks();
  const int64_t limit = process_limit_of(target.budget);
  int64_t room = limit - kOfSteps - target.later_bytes - resident_memory().now;
  for (int plans = 1;; ++plans) {
    const PlanTarget within = bounded(target, limit, room);
    PlannedTraining planned = plan(within);
    release_free_memory();
    const int64_t of_device = target.device == "cpu" ? planned.plan.arena_bytes : 0;
    ProcessMemory& process = planned.process;
    process = {.budget = limit,
               .present = resident_memory().now,
               .later = later_bytes_of(planned.settings) + target.later_bytes,
               .arenas = of_device + planned.plan.host_bytes};
    process.minimum =
        process.total() - of_device + (target.device == "cpu" ? planned.minimum_budget_bytes : int64_t{0});
    const int64_t excess = process.total() - limit;
    process.binds = target.device != "cpu" || within.budget.device != target.budget.device;
    if (!planned.plan.fits) {
      if (process.binds) process.minimum = std::max(process.minimum, resident_memory().peak) + kUntried;
      return planned;
    }
    if (excess <= 0) {
      // A later plan of the same training, with scratch that was measured then, has no more than this either.
      const int64_t left = limit - process.later - process.present - planned.plan.host_bytes;
      for (Budget* budget : {&planned.settings.budget, &planned.plan.budget})
        if (target.device == "cpu" && budget->device) budget->device = std::min(*budget->device, left);
      return planned;
    }
    if (plans == kPlans) {
      process.binds = true;
      planned.plan.fits = false;
      return planned;
    }
    room = std::min(room - 1, limit - process.later - process.present);
  }
}

}  // namespace plimsoll
