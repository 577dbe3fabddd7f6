// Keys of what is trained and how the rest is held.
#include <algorithm>
#include <array>

#include "plimsoll/error.h"
#include "train/job/key_groups.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {
namespace {

constexpr std::string_view kPatterns = "a pattern of dotted names such as layers.*.attention, or a list of them";
constexpr NumberRange kBelowOneOrNone{.least = 0, .most = 1, .most_open = true, .none = true};

/// A pattern or a list of patterns; none by default.
Key patterns(std::string key, std::function<std::vector<std::string>&(Job&)> place, std::string meaning) {
  return {{std::move(key), "pattern | list of patterns", "[]", std::move(meaning)},
          [place = std::move(place)](const Value& value, Job& job) { place(job) = read_patterns(value, kPatterns); }};
}

}  // namespace

std::vector<Key> fine_tuning_keys() {
  using L = LoraConfig;
  using Q = QuantizeConfig;
  return {
      patterns(
          "freeze", [](Job & job) -> auto& { return job.fine_tuning.freeze; },
          "modules or parameters that are not trained: no gradient, no optimizer state, and nothing saved for them"),
      patterns(
          "train", [](Job & job) -> auto& { return job.fine_tuning.train; },
          "modules or parameters that are trained although freeze or lora would leave them frozen"),
      patterns(
          "lora.modules", [](Job & job) -> auto& { return job.fine_tuning.lora.modules; },
          "linear layers that get a low-rank adapter; all else is frozen: gradients and state are the adapters' "
          "alone"),
      integer("lora.rank", &L::rank, {1, kWidest}, "an adapter learns rank x (in + out) numbers"),
      number("lora.alpha", &L::alpha, {.least = 0, .least_open = true}, "what adapters add is scaled by alpha / rank"),
      number("lora.dropout", &L::dropout, kBelowOneOrNone,
             "on the adapters' input; above 0 another copy of it is kept for the backward pass"),
      patterns(
          "quantize.modules", [](Job & job) -> auto& { return job.fine_tuning.quantize.modules; },
          "linear layers whose weights are frozen and held in blocks of few bits"),
      word("quantize.format", &Q::format, {"nf4", "int8"}, "nf4: 4.5 bits a weight; int8: 8.5, closer to the weight"),
      boolean("quantize.double_scales", &Q::double_scales, "the blocks' scales in 8 bits: 0.37 bits a weight fewer"),
  };
}

Key weight_dtype(std::string key, std::function<std::optional<DType>&(Job&)> place) {
  constexpr std::array types = {DType::float32, DType::bfloat16, DType::float16};
  std::vector<std::string> names = {"auto"};
  for (DType each : types) names.emplace_back(name_of(each));
  return {{std::move(key), joined(names, " | "), "auto",
           "of the weights: the 16-bit types halve them, and the gradients of those that are trained; auto: as the "
           "precision has it. Adapters stay float32"},
          [=](const Value& value, Job& job) {
            const std::string name = read_word(value, names);
            std::optional<DType>& dtype = place(job);
            dtype.reset();
            if (name != "auto") dtype = types.at(std::ranges::find(names, name) - names.begin() - 1);
          }};
}

}  // namespace plimsoll::job
