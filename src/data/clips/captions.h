// Captions as tokens, and what can be said of them without seeing a video.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// Tokens of prompt, caption and end of text, shifted against each other by one: targets that belong to the prompt, or
/// to nothing, are -100.
struct CaptionTokens {
  std::vector<int64_t> tokens, targets;  ///< as many as a sequence has
  std::vector<int32_t> caption;          ///< with the end of text: what is learned
};

/// Throws UserError that names `place` where prompt and caption are longer than `length` tokens.
CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place);

/// What is best without the video, of captions that are met so often each: the next token is the one that most often
/// followed what is written so far.
struct BlindCaptions {
  double captions_right = 0;  ///< of the held-out clips: those whose caption is the most frequent one
  double tokens_right = 0;    ///< of their captions' tokens
  double nats = 0;            ///< a token, by the frequencies of what followed; not finite where something never did
};

/// `captions` are all there are; `trained[i]` and `held_out[i]` say how many clips have the i-th.
BlindCaptions blind_captions(const std::vector<std::vector<int32_t>>& captions, const std::vector<int64_t>& trained,
                             const std::vector<int64_t>& held_out);

}  // namespace plimsoll
