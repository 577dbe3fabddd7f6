#include "job/learning_rate_note.h"

#include <fmt/format.h>

#include <cmath>

namespace plimsoll::job {

std::optional<std::string> learning_rate_note(const Job& job) {
  const OptimizerConfig& optimizer = job.optimizer;
  if (!optimizer.reference_batch_size || *optimizer.reference_batch_size == *job.batch_size) return std::nullopt;
  const double quotient = static_cast<double>(*job.batch_size) / static_cast<double>(*optimizer.reference_batch_size);
  const bool linear = optimizer.name == "sgd";
  const double rate = optimizer.learning_rate * (linear ? quotient : std::sqrt(quotient));
  return fmt::format(
      "optimizer.learning_rate {:g} is for steps of {} sequences (optimizer.reference_batch_size), "
      "but the steps of this job have {}. {} gives {:.3g}. Nothing is changed; to use this rate, set "
      "optimizer.learning_rate={:.3g} optimizer.reference_batch_size={}",
      optimizer.learning_rate, *optimizer.reference_batch_size, *job.batch_size,
      linear ? "The linear rule for SGD (Goyal et al. 2017)"
             : "The square-root rule for adaptive optimizers (Malladi et al. 2022)",
      rate, rate, *job.batch_size);
}

}  // namespace plimsoll::job
