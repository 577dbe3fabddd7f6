// Declares baselines of a text's next token by counting.
#pragma once

#include <cstdint>
#include <vector>

#include "data/text/text_dataset.h"

namespace plimsoll {

/// Mean losses over the targets of held-out windows, nats a token.
struct TextBaselines {
  double frequencies = 0;  ///< by each token's frequency in the training text, each token counted once more
  /// Loss by the tokens that followed the token before, falling back to the frequencies as in Witten and Bell (1991,
  /// method C). Negative if the vocabulary is too large for a table of pairs (more than 1 024 tokens).
  double pairs = -1;
};

/// Counts at most 4 Mi tokens (at least one window), in windows spread evenly over the training text. Holds 8 bytes for
/// each token of the vocabulary, and 4 for each pair of a vocabulary of at most 1 024 tokens. `held_out` has at least
/// one window of the validation split.
TextBaselines text_baselines(const TextDataset& dataset, const std::vector<int64_t>& held_out);

}  // namespace plimsoll
