// Declares captions as tokens, and baselines of captions without seeing the video.
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

/// Results of the best prediction without the video, from the counts of the captions: the next token is the one that
/// most often followed the same beginning.
struct CaptionBaseline {
  double captions_right = 0;  ///< share of the held-out clips whose caption is the most frequent one
  double tokens_right = 0;    ///< share of their captions' tokens
  double nats = 0;            ///< nats a token, by the frequencies of the next tokens; not finite if a token never
                              ///< followed
};

/// `captions` are all captions; `trained[i]` and `held_out[i]` are the numbers of clips with the i-th.
CaptionBaseline blind_captions(const std::vector<std::vector<int32_t>>& captions, const std::vector<int64_t>& trained,
                               const std::vector<int64_t>& held_out);

}  // namespace plimsoll
