// A few steps of a step on random tokens, and what came of it.
#pragma once

#include "plimsoll/training.h"
#include "run/batches.h"

namespace plimsoll::testing {

struct RunResult {
  std::vector<double> losses;
  Plan plan;  ///< as it stands at the end
  MemoryUse used;
};

/// `step` takes 2 x 64 tokens of a vocabulary of 512. The same seed, and so the same model and data, every time.
inline RunResult train(const Step& step, const TrainingOptions& options, int micro, int steps) {
  torch::manual_seed(7);
  Training training(step, options);
  training.start();
  RunResult result;
  for (int i = 0; i < steps; ++i) {
    std::vector<Batch> batches;
    for (int m = 0; m < micro; ++m) batches.push_back(token_batch(2, 64, 512));
    result.losses.push_back(training.step(batches, 1e-3).loss);
  }
  result.plan = training.plan();
  result.used = training.used();
  return result;
}

}  // namespace plimsoll::testing
