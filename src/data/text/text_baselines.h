// What a text's next token can be foretold by counting.
#pragma once

#include <cstdint>
#include <vector>

#include "data/text/text_dataset.h"

namespace plimsoll {

/// Mean losses over the targets of held-out windows, nats a token.
struct TextBaselines {
  double frequencies = 0;  ///< by how often each token is in the text trained on, each counted once more
  /// By what followed the token before, falling back to the frequencies as Witten and Bell (1991, method C) have it;
  /// negative where the vocabulary is too large for a table of pairs.
  double pairs = -1;
};

/// Counts at most some millions of tokens, in windows spread evenly over the text trained on; holds 8 bytes for each
/// token of the vocabulary, and 4 for each pair of a vocabulary of up to 1 024. `held_out` has at least one window of
/// the validation split.
TextBaselines text_baselines(const TextDataset& dataset, const std::vector<int64_t>& held_out);

}  // namespace plimsoll
