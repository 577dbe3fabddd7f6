#include "job/batch_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "job/keys/keys.h"
#include "job/keys/values.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

constexpr int64_t kDefaultBatch = 8;

constexpr const char* kBatchKey = "batch_size";
constexpr const char* kMicroKey = "micro_batch_size";
constexpr const char* kStepsKey = "gradient_accumulation_steps";
/// DeepSpeed's name, which means the whole step in DeepSpeed too.
constexpr const char* kWholeWord = "train_batch_size";
/// Text that occurs only in the note about a product; batch_size_is_micro_batch() searches for it.
constexpr const char* kProductWords = "samples an optimizer step";

int64_t rounded_up(int64_t number, int64_t divisor) {
  return (number + divisor - 1) / divisor;
}

bool is_schedule(const AccumulationSchedule& steps) {
  return steps.size() > 1;
}

/// Returns "2", "{0: 4, 4: 2}".
std::string describe_accumulation(const AccumulationSchedule& steps) {
  if (!is_schedule(steps)) return std::to_string(steps.at(0));
  std::string text;
  for (const auto& [epoch, count] : steps) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", epoch, count);
  return "{" + text + "}";
}

/// Returns the micro batch of a whole batch that is divided into `steps.at(0)`; nullopt if it cannot be.
std::optional<int64_t> part_of(int64_t batch, const AccumulationSchedule& steps) {
  const int64_t count = steps.at(0), micro = rounded_up(batch, count);
  const bool possible = is_schedule(steps) ? batch % count == 0 : rounded_up(batch, micro) == count;
  return possible ? std::optional(micro) : std::nullopt;
}

/// Returns the micro batch of a batch that is divided into `steps.at(0)` of them. Throws an error that proposes a batch
/// size.
int64_t micro_batch_for(int64_t batch, bool batch_given, const AccumulationSchedule& steps,
                        const KeyLocations& locations) {
  if (const auto micro = part_of(batch, steps)) return *micro;
  const int64_t count = steps.at(0);
  const bool scheduled = is_schedule(steps);
  if (!batch_given)
    throw UserError(fmt::format(
        "{}: {} is {}, but batch_size is not set and its default, {}, {}; set batch_size or micro_batch_size",
        locations.of({kStepsKey}), kStepsKey, count, batch,
        scheduled ? fmt::format("is no multiple of {}", count)
                  : fmt::format("cannot be divided into {} micro batches of which only the last is smaller", count)));
  std::vector<int64_t> multiples;
  for (int64_t multiple : {batch / count * count, (batch / count + 1) * count})
    if (multiple > 0 && multiple <= kMaxBatch) multiples.push_back(multiple);
  throw UserError(fmt::format(
      "{}: batch_size is {}; {} {} {}{}{}", locations.of({kBatchKey}), batch,
      scheduled ? "it must be a multiple of" : "it does not fit", kStepsKey, count,
      scheduled ? ", because all micro batches of a schedule have the same size"
                : fmt::format(": it cannot be divided into {} micro batches of which only the last is smaller", count),
      for_example(multiples)));
}

/// Replaces numbers of the file by those of the command line, and drops numbers of the file that contradict them.
void put_command_line_first(Job& job, const KeyLocations& locations, bool& micro_stated) {
  std::optional<int64_t>&batch = job.batch_size, &micro = job.micro_batch_size;
  std::optional<AccumulationSchedule>& steps = job.gradient_accumulation_steps;
  const bool new_batch = batch && locations.overridden(kBatchKey);
  const bool new_micro = micro && locations.overridden(kMicroKey);
  const bool new_steps = steps && locations.overridden(kStepsKey);
  const bool plain = !steps || !is_schedule(*steps);
  if (new_batch + new_micro + new_steps > 1) {
    if (!new_micro && !locations.overridden(kMicroKey)) {
      micro.reset();
      micro_stated = false;
    }
    if (!new_batch) batch.reset();
    if (!new_steps && plain) steps.reset();
    return;
  }
  // One number. If the file sets the micro batch, batch_size is the whole step, and the accumulation follows.
  if (!(new_batch || new_micro) || !batch || !micro || !plain || !locations.in_file(kMicroKey)) return;
  const std::string& place = locations.of({new_batch ? kBatchKey : kMicroKey});
  if (new_batch && *batch < *micro) {
    job.notes.push_back(
        fmt::format("{}: the file's micro_batch_size: {} is more than the whole step; the planner "
                    "chooses it",
                    place, *micro));
    micro.reset();
    steps.reset();
  } else if (const int64_t count = rounded_up(*batch, *micro); steps && steps->at(0) != count && *batch >= *micro) {
    job.notes.push_back(
        fmt::format("{}: the file's gradient_accumulation_steps: {} is {} beside it: a step of {} "
                    "samples, {} at a time",
                    place, steps->at(0), count, *batch, *micro));
    steps = AccumulationSchedule{{0, count}};
  }
}

/// Adds the note "16 x 2 = 32 samples an optimizer step": the meaning of batch_size with an accumulation, and how to
/// write the other meaning.
void note_product(Job& job, const KeyLocations& locations, bool batch_given) {
  const int64_t micro = *job.micro_batch_size;
  const AccumulationSchedule& steps = *job.gradient_accumulation_steps;
  const std::string given =
      batch_given
          ? fmt::format("batch_size: {} with gradient_accumulation_steps: {}", micro, describe_accumulation(steps))
          : fmt::format("gradient_accumulation_steps: {} without a batch_size", describe_accumulation(steps));
  std::string note =
      fmt::format("{}: {} is {} x {} = {} {}{}", locations.of({kBatchKey, kStepsKey}), given, micro, steps.at(0),
                  micro * steps.at(0), kProductWords, is_schedule(steps) ? " in epoch 0" : "");
  const int64_t devices = job.ranks.count;
  if (devices > 1) note += fmt::format(" on each of {} devices", devices);
  // If a step of `micro` cannot be divided like that, the other meaning is impossible.
  const bool equal_parts = micro % (devices * steps.at(0)) == 0;
  if (const auto part = part_of(micro, steps); part && (devices == 1 || equal_parts))
    note += fmt::format("; for {} in all give micro_batch_size: {}", micro, *part / devices);
  job.notes.push_back(std::move(note));
}

/// Returns the location of the last of the three keys.
const std::string& place_of_last(const KeyLocations& locations) {
  for (const char* key : {kBatchKey, kMicroKey, kStepsKey})
    if (locations.overridden(key)) return locations.of({key});
  return locations.of({kBatchKey});
}

/// Throws UserError if the three numbers contradict each other; the message has a valid value for each. `devices`:
/// number of devices that a given batch_size is the whole of.
void require_agreement(const Job& job, const KeyLocations& locations, int64_t devices) {
  const int64_t batch = *job.batch_size, micro = *job.micro_batch_size;
  const AccumulationSchedule& steps = *job.gradient_accumulation_steps;
  const int64_t count = steps.at(0), product = micro * count;
  const bool scheduled = is_schedule(steps), alike = scheduled || count == 1 || devices > 1;
  const int64_t least = alike ? product : product - micro + 1;
  if (batch >= least && batch <= product) return;
  std::vector<std::string> instead{fmt::format("{}: {}", kBatchKey, product * devices)};
  if (!scheduled && batch >= micro) instead.push_back(fmt::format("{}: {}", kStepsKey, rounded_up(batch, micro)));
  if (const auto part = part_of(batch, steps)) instead.push_back(fmt::format("{}: {}", kMicroKey, *part));
  throw UserError(fmt::format(
      "{}: batch_size {}, micro_batch_size {} and gradient_accumulation_steps {} do not agree: {} x {}{} = {}{}, not "
      "{}; remove batch_size, or set {}",
      place_of_last(locations), batch * devices, micro, describe_accumulation(steps), micro, count,
      devices > 1 ? fmt::format(" x {} devices", devices) : "", product * devices,
      scheduled         ? " in epoch 0"
      : least < product ? fmt::format(" (at least {}, if the last micro batch is smaller)", least)
                        : "",
      batch * devices, fmt::join(instead, " or ")));
}

/// Completes the batch sizes of one device. `devices`: number of devices that a given batch_size was the whole of,
/// before it was divided.
void complete_one_device(Job& job, const KeyLocations& locations, int64_t devices) {
  std::optional<int64_t>& batch = job.batch_size;
  std::optional<int64_t>& micro = job.micro_batch_size;
  std::optional<AccumulationSchedule>& steps = job.gradient_accumulation_steps;

  bool micro_stated = locations.given(kMicroKey);
  put_command_line_first(job, locations, micro_stated);
  const bool batch_given = batch.has_value();

  const bool whole = micro_stated || locations.word(kBatchKey) == kWholeWord;
  if (steps && !micro && !whole) {
    micro = batch.value_or(kDefaultBatch);
    batch = *micro * steps->at(0);
    if (steps->at(0) > 1) note_product(job, locations, batch_given);
  }
  if (micro && !steps) {
    if (batch && *batch < *micro)
      throw UserError(fmt::format("{}: batch_size is {}; it must be at least micro_batch_size, {}",
                                  locations.of({kBatchKey}), *batch, *micro));
    steps = AccumulationSchedule{{0, batch ? rounded_up(*batch, *micro) : 1}};
  }
  if (steps && !micro) {
    batch = batch.value_or(kDefaultBatch);
    micro = micro_batch_for(*batch, batch_given, *steps, locations);
  }
  if (!micro) {
    batch = batch.value_or(kDefaultBatch);
    return;
  }
  if (batch) require_agreement(job, locations, devices);
  batch = batch.value_or(*micro * steps->at(0));
  const int64_t most = std::ranges::max_element(*steps, {}, [](const auto& entry) { return entry.second; })->second;
  if ((is_schedule(*steps) ? *micro * most : *batch) > kMaxBatch)
    throw UserError(
        fmt::format("{0}: {1} {2} x gradient_accumulation_steps {3} is more than {4}, the largest step in samples; "
                    "set {1}: {5} or less",
                    locations.of({kStepsKey, kMicroKey}), batch_size_is_micro_batch(job) ? kBatchKey : kMicroKey,
                    *micro, most, kMaxBatch, std::max<int64_t>(1, kMaxBatch / most)));
  // The file alone means the product; a micro batch on the command line makes its batch_size the whole.
  if (locations.overridden(kMicroKey) && !locations.in_file(kMicroKey) && batch_given && steps->at(0) > 1 &&
      locations.in_file(kBatchKey) && locations.in_file(kStepsKey) && !locations.overridden(kBatchKey) &&
      !locations.overridden(kStepsKey) && locations.word(kBatchKey) != kWholeWord)
    job.notes.push_back(
        fmt::format("{}: beside it the file's batch_size: {} is the whole step; without it, with "
                    "gradient_accumulation_steps: {}, {} x {} = {} samples",
                    locations.of({kMicroKey}), *batch * devices, describe_accumulation(*steps), *batch * devices,
                    steps->at(0), *batch * devices * steps->at(0)));
}

}  // namespace

void resolve_batch_sizes(Job& job, const KeyLocations& locations) {
  const bool batch_given = job.batch_size.has_value();
  const bool divided = divide_over_devices(job, locations, kWholeWord);
  complete_one_device(job, locations, divided ? job.ranks.count : 1);
  if (job.ranks.count == 1) return;
  if (*job.batch_size > kMaxBatch / job.ranks.count)
    throw UserError(fmt::format(
        "{}: batch_size {} x {} devices is more than {}, the largest step in samples; set batch_size: {} or "
        "less",
        locations.of({kBatchKey, "devices"}), *job.batch_size, job.ranks.count, kMaxBatch,
        std::max<int64_t>(1, kMaxBatch / job.ranks.count)));
  if (!divided) job.notes.push_back(larger_batch_note(job, locations, batch_given));
}

bool batch_size_is_micro_batch(const Job& job) {
  return std::ranges::any_of(job.notes,
                             [](const std::string& note) { return note.find(kProductWords) != std::string::npos; });
}

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
