// Implements what follows from the batch of a step, the schedule of learning rates, and the names of precisions,
// strategies and the optimizer's choices.
#include "plimsoll/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

int64_t last_micro_batch_of(const TrainingOptions& options) {
  if (!options.batch_size || !options.micro_batch_size || !options.gradient_accumulation_steps) return 0;
  if (options.gradient_accumulation_steps->size() != 1) return 0;
  const int64_t count = options.gradient_accumulation_steps->begin()->second;
  const int64_t last = *options.batch_size - *options.micro_batch_size * (count - 1);
  return count > 1 && last > 0 && last < *options.micro_batch_size ? last : 0;
}

TrainingOptions with_batch(TrainingOptions options) {
  if (options.batch_size && options.micro_batch_size && !options.gradient_accumulation_steps)
    options.gradient_accumulation_steps =
        AccumulationSchedule{{0, (*options.batch_size + *options.micro_batch_size - 1) / *options.micro_batch_size}};
  const auto& counts = options.gradient_accumulation_steps;
  if (!options.batch_size && !counts) return options;
  options.accumulate = counts ? std::ranges::any_of(*counts, [](const auto& entry) { return entry.second > 1; })
                              : options.batch_size.value_or(1) > 1;
  options.last_micro_batch = last_micro_batch_of(options);
  if (counts) options.micro_batches = counts->begin()->second;
  return options;
}

std::string_view name_of(StateDtype dtype) {
  switch (dtype) {
    case StateDtype::as_parameters:
      return "parameters";
    case StateDtype::float32:
      return "float32";
    case StateDtype::bfloat16:
      return "bfloat16";
    case StateDtype::bits8:
      return "8bit";
    case StateDtype::bits4:
      return "4bit";
    case StateDtype::automatic:
      return "auto";
  }
  throw InternalError("not a state dtype");
}

std::string_view name_of(WeightUpdate update) {
  switch (update) {
    case WeightUpdate::nearest:
      return "nearest";
    case WeightUpdate::stochastic:
      return "stochastic";
    case WeightUpdate::kahan:
      return "kahan";
    case WeightUpdate::split:
      return "split";
    case WeightUpdate::master:
      return "master";
    case WeightUpdate::automatic:
      return "auto";
  }
  throw InternalError("not a weight update");
}

std::string_view name_of(AccumulatorDtype dtype) {
  switch (dtype) {
    case AccumulatorDtype::as_gradients:
      return "gradients";
    case AccumulatorDtype::float32:
      return "float32";
    case AccumulatorDtype::bfloat16:
      return "bfloat16";
    case AccumulatorDtype::bits8:
      return "8bit";
    case AccumulatorDtype::automatic:
      return "auto";
  }
  throw InternalError("not an accumulator dtype");
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32_true:
      return "32-true";
    case Precision::fp16_mixed:
      return "16-mixed";
    case Precision::bf16_mixed:
      return "bf16-mixed";
    case Precision::automatic:
      return "auto";
    case Precision::bf16_true:
      return "bf16-true";
  }
  throw InternalError("name_of: not a precision");
}

double learning_rate_at(const SchedulerConfig& config, double learning_rate, int64_t step, int64_t max_steps) {
  check(step >= 1, "steps count from 1");
  const int64_t warm = std::max<int64_t>(config.warmup_steps, 1);
  if (step < warm) return learning_rate * static_cast<double>(step) / static_cast<double>(warm);
  if (config.name == "constant" || max_steps <= warm) return learning_rate;
  const double done = static_cast<double>(std::min(step, max_steps) - warm) / static_cast<double>(max_steps - warm);
  const double least = config.min_lr_ratio;
  if (config.name == "linear") return learning_rate * (1 - (1 - least) * done);
  check(config.name == "cosine", "unknown scheduler " + config.name);
  return learning_rate * (least + (1 - least) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::ddp:
      return "ddp";
    case Strategy::zero1:
      return "zero1";
    case Strategy::zero2:
      return "zero2";
    case Strategy::zero3:
      return "zero3";
    case Strategy::automatic:
      return "auto";
  }
  throw InternalError("name_of: not a strategy");
}

}  // namespace plimsoll
