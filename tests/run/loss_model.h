// Defines the model, the step and the batches for tests of losses of a large linear layer.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <memory>

#include "run/equality.h"

namespace plimsoll::testing::losses {

using torch::Tensor;

constexpr int64_t kSequences = 2, kTokens = 40, kWords = 20000, kWidth = 12;

struct Model : torch::nn::Module {
  Model() {
    words = register_parameter("words", torch::empty({kWords, kWidth}).uniform_(-1, 1));
    mixing = register_parameter("mixing", torch::empty({kWidth, kWidth}).uniform_(-1, 1));
    head = register_parameter("head", torch::empty({kWords, kWidth}).uniform_(-1, 1));
    bias = register_parameter("bias", torch::empty({kWords}).uniform_(-1, 1));
  }
  Tensor hidden(const Tensor& tokens) const { return torch::linear(torch::embedding(words, tokens), mixing).tanh(); }
  Tensor words, mixing, head, bias;
};

using Loss = std::function<Tensor(const Model& model, const Tensor& hidden, const Tensor& targets)>;

inline Step step_of(const Loss& loss, Replacements replace = {}) {
  Step step;
  step.inputs = {{"tokens", {kSequences, kTokens}, torch::kLong}, {"targets", {kSequences, kTokens}, torch::kLong}};
  step.model = [] { return std::make_shared<Model>(); };
  step.loss = [loss](torch::nn::Module& module, const StepInputs& inputs) {
    const auto& model = dynamic_cast<const Model&>(module);
    return loss(model, model.hidden(inputs["tokens"]), inputs["targets"]) + 0 * model.bias.sum();
  };
  step.replace = replace;
  return step;
}

inline TrainingOptions options_of(Precision precision = Precision::fp32_true) {
  TrainingOptions options;
  options.optimizer.name = "sgd";
  options.precision = precision;
  return options;
}

inline Batch batch_of(int64_t seed) {
  torch::manual_seed(seed);
  Batch batch = {{"tokens", torch::randint(kWords, {kSequences, kTokens}, torch::kLong)},
                 {"targets", torch::randint(kWords, {kSequences, kTokens}, torch::kLong)}};
  batch["targets"].slice(1, 3, 9).fill_(-100);
  return batch;
}

inline Tensor rows(const Tensor& logits) {
  return logits.reshape({-1, kWords});
}

}  // namespace plimsoll::testing::losses
