#include "run/search/format_choices.h"

#include <algorithm>
#include <tuple>

namespace plimsoll {

namespace {

bool never_accumulates(const TrainingOptions& options) {
  if (!options.gradient_accumulation_steps) return options.batch_size.value_or(1) == 1;
  return std::ranges::all_of(*options.gradient_accumulation_steps, [](const auto& entry) { return entry.second == 1; });
}

}  // namespace

std::vector<TrainingOptions> format_choices(const TrainingOptions& options) {
  // The smallest effect on the loss curve comes first (docs/optimizers.md): state of 8 bits before the float32 with
  // bfloat16 weights, accumulators of 8 bits before state of 4.
  using S = StateDtype;
  using W = WeightUpdate;
  using A = AccumulatorDtype;
  constexpr std::tuple<S, W, A> ladder[] = {
      {S::float32, W::split, A::float32},     {S::bits8, W::split, A::float32},    {S::bits8, W::split, A::bfloat16},
      {S::bits8, W::stochastic, A::bfloat16}, {S::bits8, W::stochastic, A::bits8}, {S::bits4, W::stochastic, A::bits8},
  };
  // A format without an effect is no choice.
  const bool whole = options.precision != Precision::automatic && options.precision != Precision::bf16_true &&
                     (!options.dtype || *options.dtype == DType::float32);
  const bool stateless =
      options.optimizer.name == "adafactor" || (options.optimizer.name == "sgd" && options.optimizer.momentum == 0);
  std::vector<TrainingOptions> choices;
  for (auto [state, update, accumulator] : ladder) {
    if (options.optimizer.state_dtype != S::automatic)
      state = options.optimizer.state_dtype;
    else if (stateless)
      state = S::as_parameters;
    if (options.optimizer.weight_update != W::automatic)
      update = options.optimizer.weight_update;
    else if (whole)
      update = W::stochastic;
    else if (options.dtype == DType::float16 && update == W::split)
      update = W::kahan;  // a 16-bit remainder extends only bfloat16 to float32
    if (options.accumulator_dtype != A::automatic)
      accumulator = options.accumulator_dtype;
    else if (never_accumulates(options))
      accumulator = A::as_gradients;
    else if (options.ranks.count > 1)
      accumulator =
          A::float32;  // sums of several devices cannot be rounded at random (optimizer/exchanged_gradients.h)
    const auto is_known = [&](const TrainingOptions& each) {
      return each.optimizer.state_dtype == state && each.optimizer.weight_update == update &&
             each.accumulator_dtype == accumulator;
    };
    if (std::ranges::any_of(choices, is_known)) continue;
    TrainingOptions& choice = choices.emplace_back(options);
    choice.optimizer.state_dtype = state;
    choice.optimizer.weight_update = update;
    choice.accumulator_dtype = accumulator;
  }
  return choices;
}

std::string describe_formats(const TrainingOptions& options, const TrainingOptions& chosen) {
  std::string words;
  const auto add = [&](const char* key, std::string_view value) {
    words += (words.empty() ? "" : ", ") + std::string(key) + " " + std::string(value);
  };
  if (options.optimizer.state_dtype == StateDtype::automatic) add("state_dtype", name_of(chosen.optimizer.state_dtype));
  if (options.optimizer.weight_update == WeightUpdate::automatic)
    add("weight_update", name_of(chosen.optimizer.weight_update));
  if (options.accumulator_dtype == AccumulatorDtype::automatic)
    add("gradient_accumulation_dtype", name_of(chosen.accumulator_dtype));
  return words;
}

}  // namespace plimsoll
