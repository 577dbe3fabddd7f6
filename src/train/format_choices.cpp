#include "train/format_choices.h"

#include <algorithm>

namespace plimsoll {

bool has_open_formats(const Job& job) {
  return job.optimizer.state_dtype == StateDtype::automatic || job.optimizer.weight_update == WeightUpdate::automatic ||
         job.accumulator_dtype == AccumulatorDtype::automatic;
}

namespace {

bool never_accumulates(const Job& job) {
  if (!job.gradient_accumulation_steps) return job.batch_size.value_or(1) == 1;
  return std::ranges::all_of(*job.gradient_accumulation_steps, [](const auto& entry) { return entry.second == 1; });
}

}  // namespace

std::vector<FormatChoice> format_choices(const Job& job) {
  // The smallest effect on the loss curve comes first (docs/optimizers.md): state of 8 bits before the float32 with
  // bfloat16 weights, accumulators of 8 bits before state of 4.
  using S = StateDtype;
  using W = WeightUpdate;
  using A = AccumulatorDtype;
  const std::vector<FormatChoice> ladder = {
      {S::float32, W::split, A::float32},     {S::bits8, W::split, A::float32},    {S::bits8, W::split, A::bfloat16},
      {S::bits8, W::stochastic, A::bfloat16}, {S::bits8, W::stochastic, A::bits8}, {S::bits4, W::stochastic, A::bits8},
  };
  std::vector<FormatChoice> choices;
  for (FormatChoice each : ladder) {
    if (job.optimizer.state_dtype != S::automatic) each.state_dtype = job.optimizer.state_dtype;
    // A 16-bit remainder extends only bfloat16 to float32.
    if (job.model.dtype == DType::float16 && each.weight_update == W::split) each.weight_update = W::kahan;
    if (job.optimizer.weight_update != W::automatic) each.weight_update = job.optimizer.weight_update;
    if (job.accumulator_dtype != A::automatic) each.accumulator_dtype = job.accumulator_dtype;
    // Gradient sums of several devices cannot be rounded at random (run/optimizer/exchanged_gradients.h).
    else if (job.devices > 1 && each.accumulator_dtype != A::as_gradients)
      each.accumulator_dtype = A::float32;
    // A format without an effect is no choice.
    const bool whole = job.precision && *job.precision != Precision::bf16_true &&
                       (!job.model.dtype || *job.model.dtype == DType::float32);
    if (job.optimizer.weight_update == W::automatic && whole) each.weight_update = W::stochastic;
    const bool stateless =
        job.optimizer.name == "adafactor" || (job.optimizer.name == "sgd" && job.optimizer.momentum == 0);
    if (job.optimizer.state_dtype == S::automatic && stateless) each.state_dtype = S::as_parameters;
    if (job.accumulator_dtype == A::automatic && never_accumulates(job)) each.accumulator_dtype = A::as_gradients;
    if (std::ranges::find(choices, each) == choices.end()) choices.push_back(each);
  }
  return choices;
}

Job with_formats(Job job, const FormatChoice& choice) {
  job.optimizer.state_dtype = choice.state_dtype;
  job.optimizer.weight_update = choice.weight_update;
  job.accumulator_dtype = choice.accumulator_dtype;
  return job;
}

std::string describe_formats(const Job& job, const FormatChoice& choice) {
  std::string words;
  const auto add = [&](const char* key, std::string_view value) {
    words += (words.empty() ? "" : ", ") + std::string(key) + " " + std::string(value);
  };
  if (job.optimizer.state_dtype == StateDtype::automatic) add("state_dtype", name_of(choice.state_dtype));
  if (job.optimizer.weight_update == WeightUpdate::automatic) add("weight_update", name_of(choice.weight_update));
  if (job.accumulator_dtype == AccumulatorDtype::automatic)
    add("gradient_accumulation_dtype", name_of(choice.accumulator_dtype));
  return words;
}

}  // namespace plimsoll
