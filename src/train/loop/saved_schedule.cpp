#include "train/loop/saved_schedule.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace plimsoll {
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
