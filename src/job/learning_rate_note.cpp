#include "job/learning_rate_note.h"

#include <fmt/format.h>

#include <cmath>

namespace plimsoll::job {

std::optional<std::string> learning_rate_note(const Job& job) {
  const OptimizerConfig& optimizer = job.optimizer;
  const int64_t batch = *job.batch_size * job.ranks.count;
  if (!optimizer.reference_batch_size || *optimizer.reference_batch_size == batch) return std::nullopt;
  const double quotient = static_cast<double>(batch) / static_cast<double>(*optimizer.reference_batch_size);
  const bool linear = optimizer.name == "sgd";
  const double rate = optimizer.learning_rate * (linear ? quotient : std::sqrt(quotient));
  return fmt::format(
      "optimizer.learning_rate {:g} is for steps of {} sequences (optimizer.reference_batch_size), "
      "but the steps of this job have {}. {} gives {:.3g}. Nothing is changed; to use this rate, set "
      "optimizer.learning_rate={:.3g} optimizer.reference_batch_size={}",
      optimizer.learning_rate, *optimizer.reference_batch_size, batch,
      linear ? "The linear rule for SGD (Goyal et al. 2017)"
             : "The square-root rule for adaptive optimizers (Malladi et al. 2022)",
      rate, rate, batch);
}

}  // namespace plimsoll::job
