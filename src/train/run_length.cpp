#include "plimsoll/run_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/batch.h"
#include "data/text/text_dataset.h"
#include "data/text/tokenizer.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;  // upper limit of the key max_steps

// Returns the steps until `epochs` epochs of `samples` samples are read.
int64_t steps_of(const Job& job, int64_t epochs, int64_t samples) {
  check(samples >= 1, "a run has a training sample");
  __int128 position = 0;  // samples read
  __int128 steps = 0;
  for (int64_t epoch = 0; epoch < epochs;) {
    // Steps are alike until the schedule of gradient accumulation has its next entry.
    int64_t until = epochs;
    if (job.gradient_accumulation_steps)
      if (const auto next = job.gradient_accumulation_steps->upper_bound(epoch);
          next != job.gradient_accumulation_steps->end())
        until = std::min(epochs, next->first);
    const __int128 left = static_cast<__int128>(until) * samples - position;
    const int64_t of_step = sequences_of_step(job, epoch);
    const __int128 count = (left + of_step - 1) / of_step;  // its first step begins before `until`
    steps += count;
    position += count * of_step;
    if (steps > kMaxSteps)
      throw UserError(
          fmt::format("max_epochs: {} epochs of {} samples are more than {} steps, the upper limit of a run; "
                      "set a smaller max_epochs, a larger batch_size, or max_steps",
                      epochs, samples, kMaxSteps));
    // A step may end in a later epoch than the next.
    epoch = static_cast<int64_t>(std::min<__int128>(epochs, std::max<__int128>(until, position / samples)));
  }
  return static_cast<int64_t>(steps);
}

int64_t warmup_of(const SchedulerConfig& scheduler, int64_t steps) {
  if (scheduler.warmup_ratio.value_or(0) <= 0) return scheduler.warmup_steps;
  return static_cast<int64_t>(std::ceil(*scheduler.warmup_ratio * static_cast<double>(steps)));
}

std::string epochs_of(int64_t epochs) {
  return epochs == 1 ? "1 epoch" : fmt::format("{} epochs", epochs);
}

// Returns "1187", or "12.5" if the last step of an epoch reads samples of the next, too.
std::string steps_an_epoch(const Job& job, int64_t samples) {
  const int64_t of_step = sequences_of_step(job, 0);
  if (samples % of_step == 0) return fmt::format("{}", samples / of_step);
  return fmt::format("{:.6g}", static_cast<double>(samples) / static_cast<double>(of_step));
}

std::string schedule_of(const Job& job, const std::optional<RunLength>& length) {
  const SchedulerConfig& scheduler = job.scheduler;
  const std::string warmup = !length && scheduler.warmup_ratio.value_or(0) > 0
                                 ? fmt::format("{:g} of the steps", *scheduler.warmup_ratio)
                             : length ? fmt::format("{}", length->warmup_steps)
                                      : fmt::format("{}", scheduler.warmup_steps);
  std::string text = warmup == "0" ? "" : fmt::format("warm-up {}, ", warmup);
  if (length && length->warmup_steps > length->steps)
    return text + fmt::format("which is not before the last step: the learning rate ends at {:.3g} of its value",
                              static_cast<double>(length->steps) / static_cast<double>(length->warmup_steps));
  if (scheduler.name == "constant") return text + "constant";
  if (!length && !scheduler.steps) return text + fmt::format("{} until the last step", scheduler.name);
  const int64_t end = length ? length->schedule_steps : *scheduler.steps;
  text += fmt::format("{} until step {}", scheduler.name, end);
  if (length && end < length->steps) text += fmt::format(", then {:g} of the learning rate", scheduler.min_lr_ratio);
  return text;
}

}  // namespace

std::optional<int64_t> step_limit_of(const Job& job) {
  if (job.max_steps || job.max_epochs) return job.max_steps;
  return kDefaultMaxSteps;
}

int64_t sequences_of_step(const Job& job, int64_t epoch) {
  const auto& counts = job.gradient_accumulation_steps;
  // Only with a schedule does the effective batch differ from epoch to epoch.
  if (counts && counts->size() > 1 && job.micro_batch_size)
    return std::prev(counts->upper_bound(epoch))->second * *job.micro_batch_size * job.ranks.count;
  return job.batch_size.value() * job.ranks.count;
}

std::optional<RunLength> run_length_of(const Job& job, std::optional<int64_t> samples) {
  const std::optional<int64_t> limit = step_limit_of(job);
  RunLength length;
  length.samples = samples;
  if (job.max_epochs && samples) {
    const auto bounded = [&]() -> std::optional<int64_t> {
      try {
        return steps_of(job, *job.max_epochs, *samples);
      } catch (const UserError&) {
        if (!limit) throw;
        return std::nullopt;  // max_steps ends the run long before
      }
    };
    length.steps_of_epochs = bounded();
  }
  if (!limit && !length.steps_of_epochs) return std::nullopt;
  length.steps = std::min(limit.value_or(kMaxSteps), length.steps_of_epochs.value_or(kMaxSteps));
  length.schedule_steps = job.scheduler.steps.value_or(length.steps);
  length.warmup_steps = warmup_of(job.scheduler, length.schedule_steps);
  return length;
}

std::string describe_run_length(const Job& job, const std::optional<RunLength>& length) {
  std::string text;
  if (!length) {
    text = fmt::format("{} of all training samples; train counts the steps when it has opened the data",
                       epochs_of(*job.max_epochs));
  } else if (!length->samples) {
    text = fmt::format("{} steps", length->steps);
    if (job.max_epochs) text += fmt::format(", or {} if they end before", epochs_of(*job.max_epochs));
  } else if (length->ends_with_epochs()) {
    const bool alike = !job.gradient_accumulation_steps || job.gradient_accumulation_steps->size() == 1;
    text =
        alike ? fmt::format("{} steps an epoch x {} = {} steps", steps_an_epoch(job, *length->samples), *job.max_epochs,
                            length->steps)
              : fmt::format("{} of {} samples = {} steps", epochs_of(*job.max_epochs), *length->samples, length->steps);
    if (job.max_steps && *job.max_steps > length->steps)
      text += fmt::format(" (max_epochs ends the run before max_steps {})", *job.max_steps);
  } else {
    text = fmt::format("{} steps, {} an epoch", length->steps, steps_an_epoch(job, *length->samples));
    if (length->steps_of_epochs && *length->steps_of_epochs > length->steps)
      text += fmt::format(" (max_steps ends the run before max_epochs {}, which are {} steps)", *job.max_epochs,
                          *length->steps_of_epochs);
  }
  return text + "; " + schedule_of(job, length);
}

namespace {

std::optional<int64_t> windows_of_text(const Job& job) {
  const auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  return TextDataset::known_training_windows(job.data, *tokenizer);
}

}  // namespace

std::optional<int64_t> known_training_samples(const Job& job) {
  if (job.data.type == "synthetic") return synthetic_samples(job.data, job.seed, {})->samples(Split::train);
  if (job.data.type != "text") return std::nullopt;
  try {
    return windows_of_text(job);
  } catch (const UserError&) {
    return std::nullopt;  // the training reports it
  }
}

void look_at_data(const Job& job) {
  if (job.data.type == "text" && missing_data(job).empty()) windows_of_text(job);
}

}  // namespace plimsoll
