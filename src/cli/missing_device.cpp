#include "cli/missing_device.h"

#include <fmt/format.h>

#include <chrono>

#include "base/bytes_up.h"
#include "cli/plan_text.h"
#include "device/backend.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "report/progress.h"
#include "report/waiting.h"

namespace plimsoll::cli {
namespace {

constexpr std::chrono::seconds kLongest{10};

struct TookTooLong {};

PlannedJob planned_on_the_cpu(const Job& job, const PlanTarget& target) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  return plan_job(job, target, [&] {
    if (std::chrono::steady_clock::now() > end) throw TookTooLong();
  });
}

// "device=cpu trains it here: at most 1.2 s a step predicted, 1:40:00 for 5000 steps, 1.91 GiB of 11.0 GiB"; empty
// where a plan for the CPU would not say it either.
std::string on_the_cpu(Job job) {
  job.device = "cpu";
  std::string change = "device=cpu";
  try {
    const Waiting waiting("planning for the CPU");
    PlanTarget target = target_of(job);
    if (job.memory_budget) {  // a card's, which may be more than there is here
      Job open = job;
      open.memory_budget.reset();
      const PlanTarget all = target_of(open);
      if (all.memory_budget && *all.memory_budget < *job.memory_budget) {
        job = open;
        target = all;
        change += " memory_budget=auto";
      }
    }
    target.thorough = false;  // a first answer
    const PlannedJob planned = planned_on_the_cpu(job, target);
    const Plan& plan = planned.plan;
    if (!plan.fits)
      return fmt::format("{} does not fit: it needs at least {}, and there are {}", change,
                         format_bytes_up(plan.minimum_budget_bytes), format_bytes(plan.budget_bytes));
    return fmt::format("{} trains it here: at most {} a step predicted, {} for {} steps, {} of {}", change,
                       short_seconds(planned.step_seconds),
                       format_duration(planned.step_seconds * static_cast<double>(job.max_steps)), job.max_steps,
                       format_bytes(plan.peak_bytes), format_bytes(plan.budget_bytes));
  } catch (const TookTooLong&) {
    return fmt::format("{} may train it here: 'plimsoll plan JOB.yaml {}' says how fast", change, change);
  } catch (const UserError&) {  // a tokenizer that is not there, say: told when the job gets there
    return "";
  }
}

}  // namespace

void require_device_of(const Job& job) {
  if (job.device == "cpu") return;
  try {
    backend_for(job.device);
  } catch (const UserError& error) {
    const std::string instead = on_the_cpu(job);
    throw UserError(fmt::format("{}{}{}", error.what(), instead.empty() ? "" : "; ", instead), error.kind());
  }
}

}  // namespace plimsoll::cli
