#include "train/job/batch_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/error.h"
#include "train/job/divisors.h"
#include "train/job/keys.h"

namespace plimsoll::job {
namespace {

constexpr int64_t kDefaultBatch = 8;

constexpr const char* kBatchKey = "batch_size";
constexpr const char* kMicroKey = "micro_batch_size";
constexpr const char* kStepsKey = "gradient_accumulation_steps";

/// batch / divisor, or an error that names the key of the divisor and proposes a batch size.
int64_t quotient(int64_t batch, bool batch_given, int64_t divisor, const char* key, const Places& places) {
  if (batch % divisor == 0) return batch / divisor;
  if (!batch_given)
    throw UserError(
        fmt::format("{}: {} is {}, and batch_size, which is not given, is {}, no multiple of it; give "
                    "batch_size or micro_batch_size",
                    places.of({key}), key, divisor, batch));
  std::vector<int64_t> multiples;
  for (int64_t multiple : {batch / divisor * divisor, (batch / divisor + 1) * divisor})
    if (multiple > 0 && multiple <= kLargestBatch) multiples.push_back(multiple);
  throw UserError(fmt::format("{}: batch_size is {}; it must be a multiple of {} {}{}", places.of({kBatchKey}), batch,
                              key, divisor, for_example(multiples)));
}

}  // namespace

void complete_batch_sizes(Job& job, const Places& places) {
  std::optional<int64_t>& batch = job.batch_size;
  std::optional<int64_t>& micro = job.micro_batch_size;
  std::optional<AccumulationSchedule>& steps = job.gradient_accumulation_steps;
  const bool batch_given = batch.has_value();

  if (micro && !steps) steps = AccumulationSchedule{{0, batch ? quotient(*batch, true, *micro, kMicroKey, places) : 1}};
  if (steps && !micro) {
    batch = batch.value_or(kDefaultBatch);
    micro = quotient(*batch, batch_given, steps->at(0), kStepsKey, places);
  }
  if (!micro) {
    batch = batch.value_or(kDefaultBatch);
    return;
  }

  const int64_t product = *micro * steps->at(0);
  const char* when = steps->size() > 1 ? " (in epoch 0)" : "";
  if (batch.value_or(product) != product)
    throw UserError(
        fmt::format("{}: batch_size is {}; it must be micro_batch_size {} x gradient_accumulation_steps {}{} "
                    "= {}; give two of the three",
                    places.of({kBatchKey}), *batch, *micro, steps->at(0), when, product));
  batch = product;
  const int64_t most = std::ranges::max_element(*steps, {}, [](const auto& entry) { return entry.second; })->second;
  if (*micro * most > kLargestBatch)
    throw UserError(
        fmt::format("{}: micro_batch_size {} x gradient_accumulation_steps {} is more than {} sequences a "
                    "step",
                    places.of({kStepsKey, kMicroKey}), *micro, most, kLargestBatch));
}

}  // namespace plimsoll::job
