// Declares the promises of a tokenizer, for any text.
#pragma once

#include <string_view>

#include "data/text/tokenizer.h"
#include "fuzz.h"

namespace plimsoll::fuzz {

/// Checks that tokens are in the vocabulary, that a text may be cut where last_cut() says and, for `gives_back`, that
/// decode(encode(text)) is the text.
inline void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, bool gives_back) {
  require(tokenizer.vocab_size() > 0, "a tokenizer without tokens");
  require(tokenizer.end_of_text() >= 0 && tokenizer.end_of_text() < tokenizer.vocab_size(),
          "the end of text is outside the vocabulary");
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  for (const int32_t token : tokens)
    require(token >= 0 && token < tokenizer.vocab_size(), "encode() gave a token outside the vocabulary");
  const std::string back = tokenizer.decode(tokens);
  if (gives_back) require(back == text, "decode(encode(text)) is another text");
  const size_t cut = tokenizer.last_cut(text);
  require(cut <= text.size(), "last_cut() is behind the end of the text");
  std::vector<int32_t> joined = tokenizer.encode(text.substr(0, cut));
  const std::vector<int32_t> rest = tokenizer.encode(text.substr(cut));
  joined.insert(joined.end(), rest.begin(), rest.end());
  require(joined == tokens, "a text that was cut at last_cut() has other tokens");
  tokenizer.fingerprint();
}

}  // namespace plimsoll::fuzz
