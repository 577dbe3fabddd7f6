#include "run/search/slow_matmul.h"

#include <fmt/format.h>

#include "plimsoll/training.h"

namespace plimsoll {
namespace {

void add_note(PlannedTraining& planned, Precision precision, const std::string& why) {
  const std::string decision = fmt::format("precision: {}", name_of(precision));
  planned.settings.slow_matmul_note = decision + " is " + why;
  planned.settings.reasons.push_back({decision, why});
  planned.plan.reasons.push_back({decision, why});
}

}  // namespace

void note_slow_matmul(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search) {
  if (options.precision == Precision::automatic || options.precision == Precision::fp32_true) return;
  const bool float16 = options.precision == Precision::fp16_mixed, missing = !float16 && !target.cost.bfloat16;
  const double speed = float16 ? target.cost.float16_matmul_speed : target.cost.bfloat16_matmul_speed;
  if (!missing && (!planned.plan.fits || speed <= 0 || speed > 1)) return;
  // The device computes bfloat16 in float32. Having float16 does not mean that it is fast, so 16-mixed is planned for
  // comparison.
  TrainingOptions other = options;
  other.precision = missing ? Precision::fp16_mixed : Precision::fp32_true;
  std::string times;
  // 32-true is not allowed for weights in float16.
  const bool possible = missing ? !options.dtype : options.dtype != DType::float16;
  if (planned.plan.fits && search.minimize_step_time && possible) {
    const PlannedTraining compared = plan_training(step, other, target, search);
    if (compared.plan.fits && compared.step_seconds < (missing ? 0.99 : 1) * planned.step_seconds)
      times = fmt::format("; predicted step {:.3g} s, with precision: {} {:.3g} s", planned.step_seconds,
                          name_of(other.precision), compared.step_seconds);
  }
  if (missing)
    add_note(
        planned, options.precision,
        fmt::format("set in the job, but {} has no bfloat16: matmul runs at the rate of float32{}; precision: auto "
                    "chooses the fastest",
                    target.cost.device, times));
  else if (!times.empty())
    add_note(planned, options.precision,
             fmt::format("set in the job and slow on this machine: {} matmul was measured at {:.2g} times the speed of "
                         "float32{}; precision: auto chooses the faster",
                         float16 ? "float16" : "bfloat16", speed, times));
}

}  // namespace plimsoll
