#include "train/loop/saved_schedule.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint.h"

namespace plimsoll {

std::string schedule_text(const Job& job, const RunLength& length) {
  const double rate = job.optimizer.learning_rate;
  std::string text = job.scheduler.name == "constant"
                         ? fmt::format("constant at {:g}", rate)
                         : fmt::format("{} from {:g} to {:g} at step {}", job.scheduler.name, rate,
                                       rate * job.scheduler.min_lr_ratio, length.steps);
  return length.warmup_steps == 0 ? text : text + fmt::format(", warm-up {}", length.warmup_steps);
}

std::string schedule_change(const std::filesystem::path& checkpoint, const std::string& now) {
  const auto counters = describe_checkpoint(checkpoint).counters;
  const auto before = counters.find(kScheduleCounter);
  if (before == counters.end() || before->second == now) return "";
  return fmt::format("the learning rate was {}, and from here on it is {}", before->second, now);
}

}  // namespace plimsoll
