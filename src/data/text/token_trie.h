// Declares a compressed trie of tokens, and the tokens that a tokenizer.json looks for in a text before anything
// else, which are found with it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// A compressed trie of tokens, which finds the longest token that a text begins with.
class TokenTrie {
 public:
  struct Entry {
    std::string text;
    int32_t value = 0;  ///< 0 or more
  };
  struct Match {
    int32_t value = -1;  ///< -1: no token
    size_t bytes = 0;
  };

  TokenTrie() = default;
  /// Makes the trie in time and memory linear in the bytes of all texts, up to the logarithm of sorting them. Empty
  /// texts are left out, and of equal texts the first is kept.
  explicit TokenTrie(std::vector<Entry> entries);

  bool empty() const { return texts_.empty(); }

  /// Returns the longest token that `text` begins with. Takes steps for at most as many bytes as the longest token has.
  Match longest(std::string_view text) const;

 private:
  /// A node whose edge from its parent carries the bytes [begin, end) of a text. Children are neighbors, by first byte.
  struct Node {
    uint32_t text = 0, begin = 0, end = 0;
    uint32_t first_child = 0, children = 0;
    int32_t value = -1;
    uint8_t byte = 0;  ///< the first byte of its edge
  };
  struct Range;

  const Node* child(const Node& node, unsigned char byte) const;

  std::vector<std::string> texts_;  // sorted
  std::vector<Node> nodes_;         // the root first
};

constexpr size_t kMaxAddedLength = 256;  ///< bytes of a token, as written and as normalized

/// A token that a tokenizer.json looks for in a text as it is, before anything else.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;             ///< not inside a word
  bool lstrip = false, rstrip = false;  ///< includes the white space before and after it
  bool normalized = true;               ///< searched after the normalizer, which also changes the token's text
};

/// Returns the `added_tokens` of a tokenizer.json: at most 131 072 tokens of at most kMaxAddedLength bytes each. Takes
/// memory for at most 32 times the bytes of their entries. Throws UserError that begins with `name`.
std::vector<AddedToken> read_added_tokens(const nlohmann::json& json, const std::string& name);

/// A finder of added tokens in a text. Of the tokens that begin first, it finds the longest. It takes at most 256 steps
/// a byte of text, and one step for bytes that no token begins with.
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
