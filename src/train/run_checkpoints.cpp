#include "train/run_checkpoints.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "job/batch_sizes.h"
#include "job/keys/keys.h"
#include "job/shared_keys.h"
#include "ops/kernel_choice.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// The counter of a checkpoint that names the kernels of the run (ops/kernel_choice.h).
constexpr std::string_view kKernelsCounter = "kernels";

// Calls `work`; errors name the key if the job names the checkpoint.
template <typename Work>
auto of_resume(const Job& requested, Work&& work) {
  if (requested.checkpoint.resume == "auto" || requested.checkpoint.resume == "never") return work();
  return of_key("checkpoint.resume", work);
}

void keep_kernels_of(const std::filesystem::path& checkpoint) {
  try {
    const auto counters = describe_checkpoint(checkpoint).counters;
    if (const auto kernels = counters.find(std::string(kKernelsCounter)); kernels != counters.end())
      ops::keep_kernels(kernels->second);
  } catch (const UserError&) {  // reported with its remedy when the whole checkpoint is read
  }
}

void keep_formats_of(const std::filesystem::path& checkpoint, Job& requested) {
  const auto origin = [&](const char* key) -> std::string {
    try {
      return checkpoint_origin(checkpoint, key).value_or("");
    } catch (const UserError&) {  // reported with its remedy when the whole checkpoint is read
      return "";
    }
  };
  if (requested.precision == Precision::automatic)
    for (Precision each : {Precision::fp32_true, Precision::fp16_mixed, Precision::bf16_mixed, Precision::bf16_true})
      if (origin("precision") == name_of(each)) requested.precision = each;
  const auto keep_choice = [&](auto& choice, auto automatic, const char* key) {
    if (choice != automatic) return;
    for (int i = 0; i < static_cast<int>(automatic); ++i)
      if (origin(key) == name_of(static_cast<decltype(automatic)>(i))) choice = static_cast<decltype(automatic)>(i);
  };
  keep_choice(requested.optimizer.state_dtype, StateDtype::automatic, "optimizer.state_dtype");
  keep_choice(requested.optimizer.weight_update, WeightUpdate::automatic, "optimizer.weight_update");
  keep_choice(requested.accumulator_dtype, AccumulatorDtype::automatic, "gradient_accumulation_dtype");
}

int64_t read_into(PreparedRun& run, const std::filesystem::path& file,
                  const std::function<void(const std::string&)>& noted) {
  Training& training = run.training();
  const DataOfJob data{
      .facts = run.data_facts().value(), .may_differ = run.job().checkpoint.allow_other_data, .noted = noted};
  try {
    // Counters come first, because a checkpoint is loaded whole or not at all.
    const CheckpointInfo info = read_checkpoint(
        file, run.origin(), training.state(),
        [&](const CheckpointInfo& described) {
          training.restore_counters(described.counters);
          if (training.steps_done() != described.step)
            throw UserError(fmt::format("{} is damaged: it says step {}, its counters say step {}", file.string(),
                                        described.step, training.steps_done()),
                            UserError::Kind::failure);
          require_same_batch_meaning(
              run.requested(), run.settings(), described.step, described.position,
              [&](int64_t position) { return run.data().epoch(position); }, file.string());
        },
        run.sliced_state(), &data);
    return info.position;
  } catch (const UserError& error) {
    const CheckpointConfig& config = run.job().checkpoint;
    if (!is_fault_of_file(error) || config.resume != "auto") throw;
    // The newest checkpoint cannot be read. Only the user may decide to continue from an older one, or from the
    // start.
    const auto existing = checkpoints_in(config.directory);
    const std::string then =
        existing.size() > 1 ? "resume from " + std::next(existing.rbegin())->second.string() : "start from step 0";
    throw UserError(fmt::format("{}; to {}, delete or move this file", error.what(), then), error.kind());
  }
}

}  // namespace

void keep_choices_of(const std::filesystem::path& checkpoint, Job& requested) {
  of_resume(requested, [&] {
    keep_kernels_of(checkpoint);
    keep_formats_of(checkpoint, requested);
  });
}

int64_t resume_run(const std::filesystem::path& checkpoint, PreparedRun& run,
                   const std::function<void(const std::string&)>& noted) {
  return of_resume(run.requested(), [&] { return read_into(run, checkpoint, noted); });
}

std::filesystem::path save_run(PreparedRun& run, int64_t position, const std::string& schedule, bool leads) {
  Training& training = run.training();
  CheckpointInfo info;
  info.step = training.steps_done();
  info.position = position;
  info.epoch = run.data().epoch(position);
  info.counters = training.counters();
  info.counters[std::string(kKernelsCounter)] = ops::kernels_text();
  info.counters[kScheduleCounter] = schedule;
  info.origin = run.origin();
  info.data = run.data_facts();
  const SlicedState sliced = run.sliced_state();
  if (leads) return save_checkpoint(run.job().checkpoint, info, training.state(), sliced);
  send_slices(training.state(), sliced);
  return {};
}

void require_same_batch_meaning(const Job& requested, const ResolvedSettings& settings, int64_t steps, int64_t position,
                                const std::function<int64_t(int64_t position)>& epoch_of,
                                const std::string& checkpoint) {
  // A file may have any number of steps; no job has more than kMaxSteps.
  if (requested.ranks.count > 1 || !job::batch_size_is_micro_batch(requested) || steps < 1 || steps > job::kMaxSteps)
    return;
  const AccumulationSchedule& accumulation = settings.accumulation();
  const int64_t micro = settings.micro_batch(), parts = accumulation.at(0);
  if (accumulation.size() > 1 && micro % parts != 0)
    return;  // a schedule's parts were whole numbers, or it was
             // refused
  // Returns the samples of `steps` steps, each of 1 / `share` of the present size; stops after `position`.
  const auto samples = [&](int64_t share) {
    int64_t read = 0;
    for (int64_t step = 0; step < steps && read <= position; ++step)
      read += micro * std::prev(accumulation.upper_bound(epoch_of(read)))->second / share;
    return read;
  };
  if (samples(1) == position || samples(parts) != position) return;
  throw UserError(fmt::format(
      "{} has {} samples in {} steps: an earlier version of Plimsoll took batch_size: {} as the samples of a whole "
      "step. "
      "This version takes it as the micro batch, {} x {} = {} samples in each step; to continue as before, add "
      "micro_batch_size: {}; to continue with {} samples, replace batch_size by micro_batch_size: {}",
      checkpoint, position, steps, micro, micro, parts, micro * parts, (micro + parts - 1) / parts, micro * parts,
      micro));
}

namespace {

constexpr std::string_view kAtStep = " at step ";

// Returns the scheduler.steps with which the job has the schedule `before` of schedule_text(); empty if other keys of
// the schedule have changed.
std::optional<int64_t> steps_that_keep(const std::string& before, const Job& job, const RunLength& length) {
  const size_t at = before.find(kAtStep);
  if (at == std::string::npos) return std::nullopt;
  int64_t steps = 0;
  const char* const number = before.data() + at + kAtStep.size();
  if (std::from_chars(number, before.data() + before.size(), steps).ec != std::errc() || steps < 1) return std::nullopt;
  Job kept = job;
  kept.scheduler.steps = steps;
  const std::optional<RunLength> length_of_kept = run_length_of(kept, length.samples);
  if (!length_of_kept || schedule_text(kept, *length_of_kept) != before) return std::nullopt;
  return steps;
}

}  // namespace

std::string schedule_text(const Job& job, const RunLength& length) {
  const double rate = job.optimizer.learning_rate;
  std::string text = job.scheduler.name == "constant"
                         ? fmt::format("constant at {:g}", rate)
                         : fmt::format("{} from {:g} to {:g}{}{}", job.scheduler.name, rate,
                                       rate * job.scheduler.min_lr_ratio, kAtStep, length.schedule_steps);
  return length.warmup_steps == 0 ? text : text + fmt::format(", warm-up {}", length.warmup_steps);
}

std::string schedule_change(const std::filesystem::path& checkpoint, const Job& job, const RunLength& length) {
  const auto counters = describe_checkpoint(checkpoint).counters;
  const auto found = counters.find(kScheduleCounter);
  const std::string now = schedule_text(job, length);
  if (found == counters.end() || found->second == now) return "";
  const std::string& before = found->second;
  std::string text = fmt::format("the learning rate was {}, and from here on it is {}", before, now);
  if (const std::optional<int64_t> steps = steps_that_keep(before, job, length))
    text += fmt::format("; set scheduler.steps={} to keep the old one", *steps);
  return text;
}

}  // namespace plimsoll
