// Implements what follows from the batch of a step.
#include <algorithm>
#include <utility>

#include "plimsoll/options.h"

namespace plimsoll {

int64_t last_micro_batch_of(const TrainingOptions& options) {
  if (!options.batch_size || !options.micro_batch_size || !options.gradient_accumulation_steps) return 0;
  if (options.gradient_accumulation_steps->size() != 1) return 0;
  const int64_t count = options.gradient_accumulation_steps->begin()->second;
  const int64_t last = *options.batch_size - *options.micro_batch_size * (count - 1);
  return count > 1 && last > 0 && last < *options.micro_batch_size ? last : 0;
}

TrainingOptions with_batch(TrainingOptions options) {
  if (options.batch_size && options.micro_batch_size && !options.gradient_accumulation_steps)
    options.gradient_accumulation_steps =
        AccumulationSchedule{{0, (*options.batch_size + *options.micro_batch_size - 1) / *options.micro_batch_size}};
  const auto& counts = options.gradient_accumulation_steps;
  if (!options.batch_size && !counts) return options;
  options.accumulate = counts ? std::ranges::any_of(*counts, [](const auto& entry) { return entry.second > 1; })
                              : options.batch_size.value_or(1) > 1;
  options.last_micro_batch = last_micro_batch_of(options);
  if (counts) options.micro_batches = counts->begin()->second;
  return options;
}

}  // namespace plimsoll
