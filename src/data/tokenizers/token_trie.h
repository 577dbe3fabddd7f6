// Declares a compressed trie of tokens, which finds the longest token that a text begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

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

}  // namespace plimsoll
