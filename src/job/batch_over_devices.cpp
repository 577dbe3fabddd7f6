#include "job/batch_over_devices.h"

#include <fmt/format.h>

#include <vector>

#include "job/batch_sizes.h"
#include "job/keys/divisors.h"
#include "job/keys/keys.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

/// The number that batch_size must be a multiple of, with a text: "4 devices x micro_batch_size 2 = 8".
struct Unit {
  int64_t samples;
  std::string words;
};

/// Returns the unit for the numbers that hold together with the batch size. The command line has priority over the
/// file: a smaller batch_size there drops the file's micro batch, and a dropped micro batch is ignored.
Unit batch_unit_of(const Job& job, const KeyLocations& locations) {
  const int64_t devices = job.ranks.count;
  const auto with = [&](const char* key, int64_t number) {
    return Unit{devices * number, fmt::format("{} devices x {} {} = {}", devices, key, number, devices * number)};
  };
  const bool dropped = locations.overridden("batch_size") && !locations.overridden("micro_batch_size") &&
                       job.micro_batch_size && *job.batch_size / devices < *job.micro_batch_size;
  if (job.micro_batch_size && !dropped) return with("micro_batch_size", *job.micro_batch_size);
  if (job.gradient_accumulation_steps && !dropped)
    return with("gradient_accumulation_steps", job.gradient_accumulation_steps->at(0));
  return {devices, fmt::format("{}, the number of devices", devices)};
}

}  // namespace

bool divide_over_devices(Job& job, const KeyLocations& locations, const std::string& whole_word) {
  if (job.ranks.count == 1 || !job.batch_size) return false;
  const bool new_batch = locations.overridden("batch_size"), new_micro = locations.overridden("micro_batch_size"),
             new_steps = locations.overridden("gradient_accumulation_steps");
  // With two numbers on the command line, the file's third number is ignored.
  const bool micro_counts = locations.given("micro_batch_size") && !(new_batch && new_steps && !new_micro);
  const bool batch_counts = !(new_micro && job.micro_batch_size && new_steps && !new_batch);
  if (!batch_counts || !(micro_counts || locations.word("batch_size") == whole_word)) return false;
  const int64_t batch = *job.batch_size;
  const Unit unit = batch_unit_of(job, locations);
  if (batch % unit.samples != 0) {
    std::vector<int64_t> near;
    for (const int64_t multiple : {batch / unit.samples * unit.samples, (batch / unit.samples + 1) * unit.samples})
      if (multiple > 0 && multiple <= kMaxBatch) near.push_back(multiple);
    throw UserError(
        fmt::format("{}: batch_size is {} over all devices; it must be a multiple of {}, because every device has the "
                    "same micro batches{}",
                    locations.of({"batch_size"}), batch, unit.words, for_example(near)));
  }
  job.batch_size = batch / job.ranks.count;
  return true;
}

std::string larger_batch_note(const Job& job, const KeyLocations& locations, bool batch_given) {
  const int64_t devices = job.ranks.count, batch = *job.batch_size;
  const bool has_parts = job.micro_batch_size.has_value();
  const int64_t steps = has_parts ? job.gradient_accumulation_steps->at(0) : 1;
  const bool scheduled = has_parts && job.gradient_accumulation_steps->size() > 1;
  const char* const key =
      !batch_given && locations.given("micro_batch_size") && has_parts ? "micro_batch_size" : "batch_size";
  const int64_t value = has_parts ? *job.micro_batch_size : batch;
  std::string keeps;
  if (value % devices == 0)
    keeps = fmt::format("{}: {} keeps it", key, value / devices);
  else if (!scheduled && steps % devices == 0)
    keeps = fmt::format("gradient_accumulation_steps: {} keeps it", steps / devices);
  else if (!scheduled && batch % devices == 0)
    keeps = fmt::format("{}: {} with gradient_accumulation_steps: 1 keeps it", key, batch / devices);
  else
    keeps = fmt::format("{} cannot be divided by {}", scheduled ? value : batch, devices);
  return fmt::format("{}: {} devices make the effective batch {} instead of {}; {}", locations.of({"devices"}), devices,
                     batch * devices, batch, keeps);
}

}  // namespace plimsoll::job
