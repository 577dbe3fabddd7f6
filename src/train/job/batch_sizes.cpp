#include "train/job/batch_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/error.h"
#include "train/job/divisors.h"
#include "train/job/keys.h"

namespace plimsoll {

int64_t last_micro_batch_of(const Job& job) {
  if (!job.batch_size || !job.micro_batch_size || !job.gradient_accumulation_steps) return 0;
  if (job.gradient_accumulation_steps->size() != 1) return 0;
  const int64_t count = job.gradient_accumulation_steps->begin()->second;
  const int64_t last = *job.batch_size - *job.micro_batch_size * (count - 1);
  return count > 1 && last > 0 && last < *job.micro_batch_size ? last : 0;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr int64_t kDefaultBatch = 8;

constexpr const char* kBatchKey = "batch_size";
constexpr const char* kMicroKey = "micro_batch_size";
constexpr const char* kStepsKey = "gradient_accumulation_steps";

int64_t rounded_up(int64_t number, int64_t divisor) {
  return (number + divisor - 1) / divisor;
}

/// The micro batch of a batch that is cut into `steps.at(0)` of them, or an error that proposes a batch size.
int64_t micro_batch_for(int64_t batch, bool batch_given, const AccumulationSchedule& steps, const Places& places) {
  const int64_t count = steps.at(0), micro = rounded_up(batch, count);
  const bool scheduled = steps.size() > 1;
  if (scheduled ? batch % count == 0 : rounded_up(batch, micro) == count) return micro;
  if (!batch_given)
    throw UserError(fmt::format(
        "{}: {} is {}, and batch_size, which is not given, is {}, {}; give batch_size or "
        "micro_batch_size",
        places.of({kStepsKey}), kStepsKey, count, batch,
        scheduled ? "no multiple of it" : "which does not make so many micro batches with only the last smaller"));
  std::vector<int64_t> multiples;
  for (int64_t multiple : {batch / count * count, (batch / count + 1) * count})
    if (multiple > 0 && multiple <= kLargestBatch) multiples.push_back(multiple);
  throw UserError(fmt::format(
      "{}: batch_size is {}; {} {} {}{}{}", places.of({kBatchKey}), batch,
      scheduled ? "it must be a multiple of" : "it does not make", kStepsKey, count,
      scheduled ? ", as with a schedule all micro batches are alike" : " micro batches with only the last smaller",
      for_example(multiples)));
}

}  // namespace

void complete_batch_sizes(Job& job, const Places& places) {
  std::optional<int64_t>& batch = job.batch_size;
  std::optional<int64_t>& micro = job.micro_batch_size;
  std::optional<AccumulationSchedule>& steps = job.gradient_accumulation_steps;

  if (micro && !steps) {
    if (batch && *batch < *micro)
      throw UserError(fmt::format("{}: batch_size is {}; it must be at least micro_batch_size, {}",
                                  places.of({kBatchKey}), *batch, *micro));
    steps = AccumulationSchedule{{0, batch ? rounded_up(*batch, *micro) : 1}};
  }
  if (steps && !micro) {
    const bool batch_given = batch.has_value();
    batch = batch.value_or(kDefaultBatch);
    micro = micro_batch_for(*batch, batch_given, *steps, places);
  }
  if (!micro) {
    batch = batch.value_or(kDefaultBatch);
    return;
  }

  const int64_t count = steps->at(0), product = *micro * count;
  const bool scheduled = steps->size() > 1, alike = scheduled || count == 1;
  const int64_t least = alike ? product : product - *micro + 1;
  if (batch && (*batch < least || *batch > product))
    throw UserError(fmt::format(
        "{}: batch_size is {}; it must be micro_batch_size {} x gradient_accumulation_steps {}{} = {}{}; give two of "
        "the three",
        places.of({kBatchKey}), *batch, *micro, count, scheduled ? " (in epoch 0)" : "", product,
        scheduled         ? ", and with a schedule all micro batches are alike"
        : least < product ? fmt::format(", or from {} where the last micro batch is smaller", least)
                          : ""));
  batch = batch.value_or(product);
  const int64_t most = std::ranges::max_element(*steps, {}, [](const auto& entry) { return entry.second; })->second;
  if ((scheduled ? *micro * most : *batch) > kLargestBatch)
    throw UserError(
        fmt::format("{}: micro_batch_size {} x gradient_accumulation_steps {} is more than {} sequences a "
                    "step",
                    places.of({kStepsKey, kMicroKey}), *micro, most, kLargestBatch));
}

}  // namespace plimsoll::job
