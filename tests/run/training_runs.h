// Declares short runs of a step on random tokens and their results, and a small recorded step.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <string>

#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "thresholds.h"

namespace plimsoll::testing {

using Batch = std::map<std::string, torch::Tensor>;

/// Returns random tokens and targets, [batch, time], for decoder_step.
inline Batch token_batch(int64_t batch, int64_t time, int64_t vocab) {
  return {{"tokens", torch::randint(vocab, {batch, time}, torch::kLong)},
          {"targets", torch::randint(vocab, {batch, time}, torch::kLong)}};
}

struct RunResult {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> state;
  Plan plan;  ///< the state at the end
  MemoryUse used;
  int64_t minimum_budget = 0;  ///< Training::minimum_budget_bytes() at the end
};

/// Trains `step`, which reads 2 x `time` tokens of a vocabulary of `words`. The same seed, and so the same model and
/// data, every time.
inline RunResult train(const Step& step, const TrainingOptions& options, int micro, int steps, int64_t time = 64,
                       int64_t words = 512) {
  torch::manual_seed(test_seed(7));
  Training training(step, options);
  training.start();
  RunResult result;
  for (int i = 0; i < steps; ++i) {
    std::vector<Batch> batches;
    for (int m = 0; m < micro; ++m) batches.push_back(token_batch(2, time, words));
    const StepResult done = training.step(batches, 1e-3);
    result.losses.push_back(done.loss);
    result.norms.push_back(done.gradient_norm);
  }
  for (const auto& [name, tensor] : training.state()) result.state[name] = tensor.clone();
  result.plan = training.plan();
  result.minimum_budget = training.minimum_budget_bytes();
  result.used = training.used();
  return result;
}

}  // namespace plimsoll::testing

namespace plimsoll {

/// Returns the recorded step of a decoder that runs in milliseconds.
inline Trace small_trace() {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.num_layers = 3;
  config.num_heads = 2;
  config.norm = "layernorm";
  return record_step(decoder_step(config, 2, 16), {});
}

}  // namespace plimsoll
