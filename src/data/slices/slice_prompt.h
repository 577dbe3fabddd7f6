// Declares the tokens by which a language model is prompted for a structure's mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

struct SlicePrompt {
  std::vector<int64_t> tokens, targets;
  std::vector<float> read_at;
};

/// Returns prompt and answer with `name` for {}, as slice_samples (data/slices/slice_samples.h) describes. Throws
/// UserError if they have more than `length` tokens.
SlicePrompt make_slice_prompt(const std::string& prompt, const std::string& answer, const std::string& name,
                              int64_t length, const Tokenizer& tokenizer);

}  // namespace plimsoll
