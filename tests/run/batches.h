// Declares batches for steps under test.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace plimsoll::testing {

using Batch = std::map<std::string, torch::Tensor>;

/// Returns random tokens and targets, [batch, time], for decoder_step.
inline Batch token_batch(int64_t batch, int64_t time, int64_t vocab) {
  return {{"tokens", torch::randint(vocab, {batch, time}, torch::kLong)},
          {"targets", torch::randint(vocab, {batch, time}, torch::kLong)}};
}

}  // namespace plimsoll::testing
