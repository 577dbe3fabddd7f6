// Declares the loss of a counting language model (NgramModel) that has read the windows that a run was trained on.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampler.h"
#include "data/text/text_dataset.h"

namespace plimsoll {

/// Longest n-gram in tokens, or a window and its last target if they are shorter.
inline constexpr int kBaselineOrder = 5;

/// Targets of held-out windows that are predicted: 15 lookups each, about ten seconds on one core.
inline constexpr int64_t kMaxNgramTargets = int64_t{4} << 20;

struct NgramBaseline {
  double nats = 0;        ///< mean over the predicted targets of the held-out windows
  int64_t tokens = 0;     ///< targets of the windows that the model has counted
  int64_t of_tokens = 0;  ///< targets of the different windows that the run has read
};

/// Counts the different windows among order.index(0) to order.index(trained - 1), in this order, until they end, 4 Mi
/// tokens are counted, or another window could make the tables exceed `max_bytes` bytes. Each window is counted once: a
/// run of several epochs reads it again, and the counts stay the same. At least one window is counted. A target is
/// predicted from the tokens before it in its window, as a model predicts it. If `held_out` has more than `max_targets`
/// targets, evenly spread windows of it are predicted, at least one. `held_out` has at least one window of the
/// validation split; `trained` is at least 1.
NgramBaseline ngram_baseline(const TextDataset& dataset, const std::vector<int64_t>& held_out, const WindowOrder& order,
                             int64_t trained, int64_t max_bytes, int64_t max_targets = kMaxNgramTargets);

}  // namespace plimsoll
