#include "train/slow_products.h"

#include <fmt/format.h>

#include "plimsoll/training.h"

namespace plimsoll {

void tell_of_slow_products(PlannedJob& planned, const Job& job, const PlanTarget& target) {
  if (!job.precision || *job.precision == Precision::fp32_true || !planned.plan.fits) return;
  const bool float16 = *job.precision == Precision::fp16_mixed;
  const double speed = float16 ? target.float16_products : target.bfloat16_products;
  if (speed <= 0 || speed > 1) return;
  Job full = job;
  full.precision = Precision::fp32_true;
  const PlannedJob other = plan_job(full, target);
  if (!other.plan.fits || other.step_seconds >= planned.step_seconds) return;
  const std::string decision = fmt::format("precision: {}", name_of(*job.precision));
  const std::string why = fmt::format(
      "pinned, and slow on this machine: its products of {} were measured to be {:.2g} times as fast as float32's; "
      "a step is predicted to take {:.3g} s, with precision: 32-true {:.3g} s; auto takes the faster",
      float16 ? "float16" : "bfloat16", speed, planned.step_seconds, other.step_seconds);
  planned.settings.slow_products = decision + " is " + why;
  planned.settings.reasons.push_back({decision, why});
  planned.plan.reasons.push_back({decision, why});
}

}  // namespace plimsoll
