// What would make a job fit that does not: changes of the job, each planned again.
#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "train/job_units.h"

namespace plimsoll {
namespace {

// A change in steps of rising cost, from the mildest to the strongest that is worth proposing.
using Steps = std::vector<std::pair<std::string, Job>>;

// One key where that is enough, then all of them.
Steps freer_choices(const Job& job) {
  Steps steps;
  Job all = job;
  std::string changes;
  const auto leave_open = [&](const std::string& change, auto&& opened) {
    Job one = job;
    opened(one);
    opened(all);
    steps.emplace_back(change, one);
    changes += (changes.empty() ? "" : " ") + change;
  };
  if (job.gradient_checkpointing != Choice::automatic)
    leave_open("gradient_checkpointing=auto", [](Job& each) { each.gradient_checkpointing = Choice::automatic; });
  if (job.update_in_backward != Choice::automatic)
    leave_open("update_in_backward=auto", [](Job& each) { each.update_in_backward = Choice::automatic; });
  if (job.micro_batch_size && *job.batch_size > 1)
    leave_open(fmt::format("batch_size={} micro_batch_size=auto gradient_accumulation_steps=auto", *job.batch_size),
               [](Job& each) {
                 each.micro_batch_size.reset();
                 each.gradient_accumulation_steps.reset();
               });
  if (steps.size() > 1) steps.emplace_back(changes, all);
  return steps;
}

// Changes that go with the freest choices: whoever does not fit leaves the rest to the planner. The overrides that say
// so come with them.
Job freed(Job job, std::string& change) {
  const Steps freer = freer_choices(job);
  if (freer.empty()) return job;
  change += " " + freer.back().first;
  return freer.back().second;
}

// Room beside the device. Not on the CPU, where it would be of the same memory.
Steps host_memory(const Job& job, const PlanTarget& target) {
  Steps steps;
  if (target.device == "cpu" || target.cost.host_link <= 0) return steps;
  for (int64_t bytes = 8 * GiB; bytes <= 512 * GiB; bytes *= 4) {
    if (bytes <= job.host_memory_budget) continue;
    std::string change = fmt::format("host_memory_budget={}GiB", bytes / GiB);
    Job changed = freed(job, change);
    changed.host_memory_budget = bytes;
    steps.emplace_back(change, changed);
  }
  return steps;
}

Steps lower_precision(const Job& job) {
  if (!job.precision) return {};  // the planner has tried them
  Steps steps;
  for (Precision precision : {Precision::bf16_mixed, Precision::bf16_true}) {
    if (job.model.dtype && precision == Precision::bf16_true && *job.model.dtype != DType::bfloat16) continue;
    if (job.model.dtype == DType::float16) continue;  // which needs loss scaling
    if (job.precision == precision || job.precision == Precision::bf16_true) continue;
    if (precision == Precision::bf16_mixed && job.precision == Precision::fp16_mixed) continue;
    std::string change = fmt::format("precision={}", name_of(precision));
    Job changed = freed(job, change);
    changed.precision = precision;
    steps.emplace_back(change, changed);
  }
  return steps;
}

Steps shorter_sequences(const Job& job) {
  Steps steps;
  if (!is_language_model(job)) return steps;
  for (int64_t length = job.data.sequence_length / 2; length >= 16; length /= 2) {
    std::string change = fmt::format("data.sequence_length={}", length);
    Job changed = freed(job, change);
    changed.data.sequence_length = length;
    steps.emplace_back(change, changed);
  }
  return steps;
}

Steps smaller_state(const Job& job) {
  if (job.optimizer.name != "adamw") return {};
  std::string change = "optimizer.name=sgd";
  Job changed = freed(job, change);
  changed.optimizer.name = "sgd";
  return {{change, changed}};
}

Steps fewer_layers(const Job& job) {
  Steps steps;
  // Weights that there are have as many layers as they have.
  if (!is_language_model(job) || !job.model.weights.empty() || !job.model.config.empty()) return steps;
  const auto layers_of = [](Job& any) -> int64_t& {
    return any.model.type == "mamba" ? any.model.mamba.num_layers : any.model.decoder.num_layers;
  };
  Job asked = job;
  for (int64_t layers = layers_of(asked) * 3 / 4; layers >= 1 && steps.size() < 12; layers = layers * 3 / 4) {
    std::string change = fmt::format("model.num_layers={}", layers);
    Job changed = freed(job, change);
    layers_of(changed) = layers;
    steps.emplace_back(change, changed);
  }
  return steps;
}

}  // namespace

std::vector<Advice> changes_that_fit(const Job& job, const PlanTarget& target, size_t most) {
  std::vector<Advice> advice;
  const auto planned = [&](const Job& changed) {
    PlanTarget with = target;
    with.thorough = false;  // whether it fits is what is asked
    with.host_memory_budget = changed.host_memory_budget;
    return plan_job(changed, with);
  };
  // What leaves the mathematics as it is comes first, then what costs least of the model.
  for (const Steps& steps : {freer_choices(job), host_memory(job, target), lower_precision(job), shorter_sequences(job),
                             smaller_state(job), fewer_layers(job)}) {
    if (advice.size() >= most) break;
    for (size_t i = 0; i < steps.size(); ++i) {
      const PlannedJob answer = planned(steps[i].second);
      if (answer.plan.fits) {
        advice.push_back({steps[i].first, answer.plan.peak_bytes, answer.step_seconds, answer.tokens_per_second});
        break;
      }
      // Where the strongest is not enough, none of those before it is.
      if (i == 0 && steps.size() > 2 && !planned(steps.back().second).plan.fits) break;
    }
  }
  return advice;
}

}  // namespace plimsoll
