// Declares captions as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// Tokens of prompt, caption and end of text, and their targets, shifted by one. Targets in the prompt and in padding
/// are -100.
struct CaptionTokens {
  std::vector<int64_t> tokens, targets;  ///< each of the sequence length
  std::vector<int32_t> caption;          ///< the tokens to learn, with the end of text
};

/// Throws UserError that names `place` if prompt and caption are longer than `length` tokens.
CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place);

}  // namespace plimsoll
