// Defines the keys of the trainable parts and of the format of the rest.
#include <algorithm>
#include <array>

#include "job/keys/key_groups.h"
#include "job/keys/key_kinds.h"
#include "job/keys/ranges.h"
#include "models/size_limits.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

constexpr std::string_view kPatterns = "a pattern of dotted names such as layers.*.attention, or a list of them";

/// Returns a key for a pattern or a list of patterns; none by default.
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
          "modules or parameters that are not trained: no gradients, no optimizer state, no saved values for them"),
      patterns(
          "train", [](Job & job) -> auto& { return job.fine_tuning.train; },
          "modules or parameters that are trained even if freeze or lora would freeze them"),
      patterns(
          "lora.modules", [](Job & job) -> auto& { return job.fine_tuning.lora.modules; },
          "linear layers that get a low-rank adapter; the rest is frozen, so only adapters have gradients and "
          "optimizer state"),
      integer("lora.rank", &L::rank, {1, model::kMaxWidth},
              "rank of the adapters; each has rank x (in + out) trainable parameters"),
      number("lora.alpha", &L::alpha, {.min = 0, .min_open = true},
             "scale of the adapters: their output is multiplied by alpha / rank"),
      number("lora.dropout", &L::dropout, kBelowOneOrNone,
             "dropout rate of the adapters' input; above 0 a second copy of the input is kept for the backward pass"),
      patterns(
          "quantize.modules", [](Job & job) -> auto& { return job.fine_tuning.quantize.modules; },
          "linear layers whose weights are frozen and quantized in blocks"),
      word("quantize.format", &Q::format, {"nf4", "int8"},
           "format of the blocks; nf4: 4.5 bits per weight; int8: 8.5 bits per weight, more exact"),
      boolean("quantize.double_scales", &Q::double_scales,
              "store the blocks' scales in 8 bits: 0.37 bits less per weight"),
  };
}

Key weight_dtype(std::string key, std::function<std::optional<DType>&(Job&)> place) {
  constexpr std::array types = {DType::float32, DType::bfloat16, DType::float16};
  std::vector<std::string> names = {"auto"};
  for (DType each : types) names.emplace_back(name_of(each));
  return {{std::move(key), joined(names, " | "), "auto",
           "dtype of the weights; 16-bit types halve their memory and that of the gradients of trained weights; auto: "
           "set by precision. Adapters stay float32"},
          [=](const Value& value, Job& job) {
            const std::string name = read_word(value, names);
            std::optional<DType>& dtype = place(job);
            dtype.reset();
            if (name != "auto") dtype = types.at(std::ranges::find(names, name) - names.begin() - 1);
          }};
}

}  // namespace plimsoll::job
