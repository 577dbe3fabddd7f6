// Defines the keys of the optimizer, its state and the weights that it updates, and of the trainable parts and the
// format of the rest.
#include <algorithm>
#include <array>

#include "job/keys/key_kinds.h"
#include "job/keys/keys.h"
#include "job/keys/values.h"
#include "models/config_checks.h"
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

namespace {

Key betas() {
  const OptimizerConfig defaults;
  return {{"optimizer.betas", "[b1, b2], each a " + kBelowOne.text(),
           fmt::format("[{}, {}]", defaults.beta1, defaults.beta2),
           "adamw: decay rates of the two running means; lion: of the update and of the running mean"},
          [](const Value& value, Job& job) {
            if (value.node->kind != Node::Kind::list || value.node->items.size() != 2)
              value.refuse("a list of two numbers: [0.9, 0.95]");
            job.optimizer.beta1 = read_number(value.with(value.node->items[0]), kBelowOne);
            job.optimizer.beta2 = read_number(value.with(value.node->items[1]), kBelowOne);
          }};
}

template <typename Type>
Key choice(std::string key, Type OptimizerConfig::*member, Type last, std::string meaning) {
  const std::vector<std::string> words = words_of(last);
  return {{std::move(key), joined(words, " | "), std::string(name_of(default_of(member))), std::move(meaning)},
          [=](const Value& value, Job& job) {
            const std::string word = read_word(value, words);
            field(job, member) = static_cast<Type>(std::ranges::find(words, word) - words.begin());
          }};
}

Key optimizer_name() {
  static const std::vector<std::string> names = {"adamw",     "adamw_8bit", "adamw_4bit", "lion", "lion_8bit",
                                                 "lion_4bit", "sgd",        "adafactor",  "muon"};
  return {{"optimizer.name", joined(names, " | "), OptimizerConfig{}.name,
           "optimizer; state per parameter: adamw two values, lion and muon one, sgd one (none if momentum is 0), "
           "adafactor a row and a column of each matrix; _8bit, _4bit: with that state_dtype"},
          // Stored whole, because its ending may contradict another key (resolve_optimizer_name).
          [](const Value& value, Job& job) { job.optimizer.name = read_word(value, names); }};
}

Key adamw_parameters() {
  return {{"optimizer.adamw_parameters", "pattern | list of patterns",
           "['" + joined(OptimizerConfig{}.adamw_parameters, "', '") + "']",
           "muon: modules or parameters that use AdamW, by name (* any characters, ? one); vectors and torch's "
           "embeddings always use it. They have two state values per parameter, the others one"},
          [](const Value& value, Job& job) {
            job.optimizer.adamw_parameters = read_patterns(value, "a pattern such as '*embed*', or a list of them");
          }};
}

}  // namespace

std::vector<Key> optimizer_keys() {
  using O = OptimizerConfig;
  return {
      optimizer_name(),
      number("optimizer.learning_rate", &O::learning_rate, kPositive, "learning rate after the warm-up"),
      integer_or("none", "optimizer.reference_batch_size", &O::reference_batch_size, {1, kMaxBatch},
                 "sequences in the step that learning_rate was chosen for; if the step of this job is another, plan "
                 "and train print the learning rate of the usual scaling rules and change nothing"),
      number("optimizer.weight_decay", &O::weight_decay, kPositiveOrNone,
             "decoupled weight decay; not applied to norms and biases"),
      betas(),
      number("optimizer.eps", &O::eps, kSmall, "adamw: value added to the root of the second mean"),
      number("optimizer.momentum", &O::momentum, kBelowOneOrNone, "momentum of sgd and muon (0.95 is usual for muon)"),
      choice("optimizer.state_dtype", &O::state_dtype, StateDtype::automatic,
             "format of optimizer state; bytes per value: those of the parameter, 4, 2, 1.008, 0.516. bfloat16, 8bit "
             "and 4bit use stochastic rounding; tensors of fewer than 4096 elements keep float32"),
      choice(
          "optimizer.weight_update", &O::weight_update, WeightUpdate::automatic,
          "rounding of updates to 16-bit parameters; nearest: loses updates below 1/512; stochastic: no additional "
          "memory; kahan: 2 more bytes per parameter; split: 2 (bfloat16 only, same as float32 to the bit); master: 4"),
      adamw_parameters(),
  };
}

}  // namespace plimsoll::job
