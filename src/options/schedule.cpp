#include "plimsoll/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "plimsoll/error.h"

namespace plimsoll {

double learning_rate_at(const SchedulerConfig& config, double learning_rate, int64_t step, int64_t max_steps) {
  check(step >= 1, "steps count from 1");
  const int64_t warm = std::max<int64_t>(config.warmup_steps, 1);
  if (step < warm) return learning_rate * static_cast<double>(step) / static_cast<double>(warm);
  if (config.name == "constant" || max_steps <= warm) return learning_rate;
  const double done = static_cast<double>(std::min(step, max_steps) - warm) / static_cast<double>(max_steps - warm);
  const double least = config.min_lr_ratio;
  if (config.name == "linear") return learning_rate * (1 - (1 - least) * done);
  check(config.name == "cosine", "unknown scheduler " + config.name);
  return learning_rate * (least + (1 - least) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace plimsoll
