#include "train/slow_matmul.h"

#include <fmt/format.h>

#include "plimsoll/training.h"

namespace plimsoll {
namespace {

void add_note(PlannedJob& planned, const Job& job, const std::string& why) {
  const std::string decision = fmt::format("precision: {}", name_of(*job.precision));
  planned.settings.slow_matmul_note = decision + " is " + why;
  planned.settings.reasons.push_back({decision, why});
  planned.plan.reasons.push_back({decision, why});
}

// The device computes bfloat16 in float32. Having float16 does not mean that it is fast, so 16-mixed is planned for
// comparison.
void note_missing_bfloat16(PlannedJob& planned, const Job& job, const PlanTarget& target,
                           const std::function<void()>& on_schedule) {
  std::string why =
      fmt::format("set in the job, but {} has no bfloat16: matmul runs at the rate of float32", target.cost.device);
  if (planned.plan.fits && target.minimize_step_time && !job.model.dtype) {
    Job other = job;
    other.precision = Precision::fp16_mixed;
    const PlannedJob half = plan_job(other, target, on_schedule);
    if (half.plan.fits && half.step_seconds < 0.99 * planned.step_seconds)
      why += fmt::format("; predicted step {:.3g} s, with precision: 16-mixed {:.3g} s", planned.step_seconds,
                         half.step_seconds);
  }
  add_note(planned, job, why + "; precision: auto chooses the fastest");
}

}  // namespace

void note_slow_matmul(PlannedJob& planned, const Job& job, const PlanTarget& target,
                      const std::function<void()>& on_schedule) {
  if (!job.precision || *job.precision == Precision::fp32_true) return;
  const bool float16 = *job.precision == Precision::fp16_mixed;
  if (!float16 && !target.bfloat16) return note_missing_bfloat16(planned, job, target, on_schedule);
  if (!planned.plan.fits) return;
  const double speed = float16 ? target.float16_matmul_speed : target.bfloat16_matmul_speed;
  if (speed <= 0 || speed > 1) return;
  // 32-true is not allowed for weights in float16.
  if (job.model.dtype == DType::float16) return;
  Job full = job;
  full.precision = Precision::fp32_true;
  const PlannedJob other = plan_job(full, target, on_schedule);
  if (!other.plan.fits || other.step_seconds >= planned.step_seconds) return;
  add_note(planned, job,
           fmt::format(
               "set in the job and slow on this machine: {} matmul was measured at {:.2g} times the speed of float32; "
               "predicted step {:.3g} s, with precision: 32-true {:.3g} s; precision: auto chooses the faster",
               float16 ? "float16" : "bfloat16", speed, planned.step_seconds, other.step_seconds));
}

}  // namespace plimsoll
