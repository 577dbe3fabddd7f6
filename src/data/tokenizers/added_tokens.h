// Declares the tokens that a tokenizer.json looks for in a text as they are, before anything else, and their finder.
//
// Bounds: at most 131 072 tokens of at most 256 bytes each. Reading takes memory for at most 32 times the bytes of
// their entries; finding takes at most 256 steps a byte of text, and one step for bytes that no token begins with.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/token_trie.h"

namespace plimsoll {

constexpr size_t kMaxAddedLength = 256;  ///< bytes of a token, as written and as normalized

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;             ///< not inside a word
  bool lstrip = false, rstrip = false;  ///< includes the white space before and after it
  bool normalized = true;               ///< searched after the normalizer, which also changes the token's text
};

/// Returns the `added_tokens` of a tokenizer.json. Throws UserError that begins with `name`.
std::vector<AddedToken> read_added_tokens(const nlohmann::json& json, const std::string& name);

/// A finder of added tokens in a text. Of the tokens that begin first, it finds the longest.
class AddedTokenFinder {
 public:
  struct Sought {
    AddedToken token;
    std::string content;  ///< the text of the token; a token with an empty content is not found
  };

  AddedTokenFinder() = default;
  /// Stores the tokens to find. If two have the same content, the first of them is found.
  explicit AddedTokenFinder(std::vector<Sought> sought);

  /// Calls between(text) and found(id) in the order of the text. `text` is valid UTF-8.
  void split(std::string_view text, const std::function<void(std::string_view)>& between,
             const std::function<void(int32_t)>& found) const;

 private:
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;                  // finds contents; values are indices into tokens_
  std::array<bool, 256> begins_{};  // true for each first byte of a content
};

}  // namespace plimsoll
