// Keys of the optimizer, its state and the weights that it updates.
#include <algorithm>

#include "train/job/key_groups.h"
#include "train/job/key_kinds.h"

namespace plimsoll::job {
namespace {

constexpr NumberRange kPositive{.least = 0, .least_open = true};
constexpr NumberRange kPositiveOrNone{.least = 0, .none = true};
constexpr NumberRange kBelowOne{.least = 0, .most = 1, .most_open = true};
constexpr NumberRange kBelowOneOrNone{.least = 0, .most = 1, .most_open = true, .none = true};
constexpr NumberRange kSmall{.least = 0, .least_open = true, .most = 1, .most_open = true};

Key betas() {
  const OptimizerConfig defaults;
  return {{"optimizer.betas", "[b1, b2], each a " + kBelowOne.text(),
           fmt::format("[{}, {}]", defaults.beta1, defaults.beta2),
           "adamw: decay of its two running means; lion: of the update and of its running mean"},
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
  return {
      {"optimizer.name", joined(names, " | "), OptimizerConfig{}.name,
       "state: adamw two values a parameter, lion and muon one, sgd one, or none where momentum is 0, adafactor a row "
       "and a column of each matrix; _8bit, _4bit: with that state_dtype"},
      // Whole: what its ending says may contradict another key (resolve_optimizer_name).
      [](const Value& value, Job& job) { job.optimizer.name = read_word(value, names); }};
}

Key adamw_parameters() {
  return {
      {"optimizer.adamw_parameters", "pattern | list of patterns",
       "['" + joined(OptimizerConfig{}.adamw_parameters, "', '") + "']",
       "muon: modules or parameters that get AdamW, by name (* any characters, ? one); vectors and torch's embeddings "
       "always do. They have two values of state, the others one"},
      [](const Value& value, Job& job) {
        job.optimizer.adamw_parameters = read_patterns(value, "a pattern such as '*embed*', or a list of them");
      }};
}

}  // namespace

std::vector<Key> optimizer_keys() {
  using O = OptimizerConfig;
  return {
      optimizer_name(),
      number("optimizer.learning_rate", &O::learning_rate, kPositive, "after the warm-up"),
      integer_or(
          "none", "optimizer.reference_batch_size", &O::reference_batch_size, {1, kLargestBatch},
          "sequences of the step that learning_rate was chosen for; where batch_size is another, plan and train say "
          "what the usual rules make of learning_rate, and change nothing"),
      number("optimizer.weight_decay", &O::weight_decay, kPositiveOrNone, "decoupled; not applied to norms and biases"),
      betas(),
      number("optimizer.eps", &O::eps, kSmall, "adamw: added to the root of the second mean"),
      number("optimizer.momentum", &O::momentum, kBelowOneOrNone, "sgd, muon (0.95 is usual)"),
      choice("optimizer.state_dtype", &O::state_dtype, StateDtype::automatic,
             "bytes of each value of state: as the parameter's, 4, 2, 1.008, 0.516. bfloat16 and fewer bits are "
             "rounded at "
             "random, and not for tensors of fewer than 4096 elements, which keep float32"),
      choice(
          "optimizer.weight_update", &O::weight_update, WeightUpdate::automatic,
          "how 16-bit parameters take up small updates: nearest loses those below 1/512; stochastic rounding takes no "
          "bytes; beside each parameter keep kahan 2 bytes, split 2 (bfloat16 only, as float32 to the bit), master 4"),
      adamw_parameters(),
  };
}

}  // namespace plimsoll::job
