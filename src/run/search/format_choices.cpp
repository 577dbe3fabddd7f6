#include "run/search/format_choices.h"

#include <algorithm>

namespace plimsoll {

namespace {

bool never_accumulates(const TrainingOptions& options) {
  if (!options.gradient_accumulation_steps) return options.batch_size.value_or(1) == 1;
  return std::ranges::all_of(*options.gradient_accumulation_steps, [](const auto& entry) { return entry.second == 1; });
}

}  // namespace

std::vector<FormatChoice> format_choices(const TrainingOptions& options) {
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
    if (options.optimizer.state_dtype != S::automatic) each.state_dtype = options.optimizer.state_dtype;
    // A 16-bit remainder extends only bfloat16 to float32.
    if (options.dtype == DType::float16 && each.weight_update == W::split) each.weight_update = W::kahan;
    if (options.optimizer.weight_update != W::automatic) each.weight_update = options.optimizer.weight_update;
    if (options.accumulator_dtype != A::automatic) each.accumulator_dtype = options.accumulator_dtype;
    // Gradient sums of several devices cannot be rounded at random (run/optimizer/exchanged_gradients.h).
    else if (options.ranks.count > 1 && each.accumulator_dtype != A::as_gradients)
      each.accumulator_dtype = A::float32;
    // A format without an effect is no choice.
    const bool whole = options.precision != Precision::automatic && options.precision != Precision::bf16_true &&
                       (!options.dtype || *options.dtype == DType::float32);
    if (options.optimizer.weight_update == W::automatic && whole) each.weight_update = W::stochastic;
    const bool stateless =
        options.optimizer.name == "adafactor" || (options.optimizer.name == "sgd" && options.optimizer.momentum == 0);
    if (options.optimizer.state_dtype == S::automatic && stateless) each.state_dtype = S::as_parameters;
    if (options.accumulator_dtype == A::automatic && never_accumulates(options))
      each.accumulator_dtype = A::as_gradients;
    if (std::ranges::find(choices, each) == choices.end()) choices.push_back(each);
  }
  return choices;
}

TrainingOptions with_formats(TrainingOptions options, const FormatChoice& choice) {
  options.optimizer.state_dtype = choice.state_dtype;
  options.optimizer.weight_update = choice.weight_update;
  options.accumulator_dtype = choice.accumulator_dtype;
  return options;
}

FormatChoice formats_of(const TrainingOptions& options) {
  return {options.optimizer.state_dtype, options.optimizer.weight_update, options.accumulator_dtype};
}

std::string describe_formats(const TrainingOptions& options, const FormatChoice& choice) {
  std::string words;
  const auto add = [&](const char* key, std::string_view value) {
    words += (words.empty() ? "" : ", ") + std::string(key) + " " + std::string(value);
  };
  if (options.optimizer.state_dtype == StateDtype::automatic) add("state_dtype", name_of(choice.state_dtype));
  if (options.optimizer.weight_update == WeightUpdate::automatic) add("weight_update", name_of(choice.weight_update));
  if (options.accumulator_dtype == AccumulatorDtype::automatic)
    add("gradient_accumulation_dtype", name_of(choice.accumulator_dtype));
  return words;
}

}  // namespace plimsoll
