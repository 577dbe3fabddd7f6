#include "train/loop/run_checkpoints.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "base/file_error.h"
#include "base/key_errors.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "job/origin.h"
#include "ops/arithmetic/kernel_choice.h"
#include "plimsoll/error.h"
#include "train/loop/resumed_batch.h"
#include "train/loop/saved_schedule.h"

namespace plimsoll {
namespace {

/// The counter of a checkpoint that names the kernels of the run (ops/arithmetic/kernel_choice.h).
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

}  // namespace plimsoll
