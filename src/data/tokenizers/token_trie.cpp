#include "data/tokenizers/token_trie.h"

#include <algorithm>

namespace plimsoll {

/// A range of texts [first, last), which share the bytes up to their node's end.
struct TokenTrie::Range {
  size_t node, first, last;
};

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& each) { return each.text.empty(); });
  std::ranges::stable_sort(entries, {}, &Entry::text);
  const auto same_text = [](const Entry& one, const Entry& other) { return one.text == other.text; };
  entries.erase(std::unique(entries.begin(), entries.end(), same_text), entries.end());
  std::vector<int32_t> values;
  for (Entry& each : entries) {
    texts_.push_back(std::move(each.text));
    values.push_back(each.value);
  }
  nodes_.emplace_back();
  std::vector<Range> open = {{0, 0, texts_.size()}};
  while (!open.empty()) {
    const auto [node, begin, last] = open.back();
    open.pop_back();
    const uint32_t depth = nodes_[node].end;
    size_t first = begin;
    if (first < last && texts_[first].size() == depth) nodes_[node].value = values[first++];
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (first < last) {
      const auto byte = texts_[first][depth];
      size_t end = first + 1;
      while (end < last && texts_[end][depth] == byte) ++end;
      // Texts between two sorted ones have at least the common bytes of the two.
      const std::string &low = texts_[first], &high = texts_[end - 1];
      size_t shared = depth;
      while (shared < low.size() && shared < high.size() && low[shared] == high[shared]) ++shared;
      Node made;
      made.text = static_cast<uint32_t>(first);
      made.begin = depth;
      made.end = static_cast<uint32_t>(shared);
      made.byte = static_cast<uint8_t>(byte);
      open.push_back({nodes_.size(), first, end});
      nodes_.push_back(made);
      ++nodes_[node].children;
      first = end;
    }
  }
}

const TokenTrie::Node* TokenTrie::child(const Node& node, unsigned char byte) const {
  const Node* begin = nodes_.data() + node.first_child;
  const Node* end = begin + node.children;
  const Node* found = std::lower_bound(begin, end, byte, [](const Node& each, uint8_t b) { return each.byte < b; });
  return found != end && found->byte == byte ? found : nullptr;
}

TokenTrie::Match TokenTrie::longest(std::string_view text) const {
  Match best;
  if (nodes_.empty()) return best;
  const Node* node = nodes_.data();
  for (size_t at = 0; at < text.size();) {
    node = child(*node, static_cast<unsigned char>(text[at]));
    if (!node) break;
    const std::string_view edge = std::string_view(texts_[node->text]).substr(node->begin, node->end - node->begin);
    if (!text.substr(at).starts_with(edge)) break;
    at += edge.size();
    if (node->value >= 0) best = {node->value, at};
  }
  return best;
}

}  // namespace plimsoll
