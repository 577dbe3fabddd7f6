#include "data/text/token_trie.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "data/text/tokenizer.h"

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

namespace {

constexpr size_t kMaxAdded = size_t{1} << 17;

/// Returns the last character of a text that is not empty.
Character last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
  return first_character(text.substr(at));
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(last_character(text).code);
}
bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(first_character(text).code);
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const nlohmann::json& json, const std::string& name) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array() || json.size() > kMaxAdded)
    throw UserError(fmt::format("{}: added_tokens must be a list of at most {}", name, kMaxAdded),
                    UserError::Kind::failure);
  for (const nlohmann::json& each : json) {
    const JsonFields fields(each, name + ": added_tokens");
    AddedToken token;
    token.id = static_cast<int32_t>(fields.integer("id", 0, kMaxVocabularyTokens - 1));
    token.content = fields.text("content");
    if (token.content.size() > kMaxAddedLength)
      fields.refuse(fmt::format("token {} has {} bytes; at most {}", token.id, token.content.size(), kMaxAddedLength));
    token.single_word = fields.boolean("single_word", false);
    token.lstrip = fields.boolean("lstrip", false);
    token.rstrip = fields.boolean("rstrip", false);
    token.normalized = fields.boolean("normalized", !fields.boolean("special", false));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenFinder::AddedTokenFinder(std::vector<Sought> sought) {
  std::vector<TokenTrie::Entry> entries;
  for (Sought& each : sought) {
    if (each.content.empty()) continue;
    begins_[static_cast<unsigned char>(each.content[0])] = true;
    entries.push_back({std::move(each.content), static_cast<int32_t>(tokens_.size())});
    tokens_.push_back(std::move(each.token));
  }
  trie_ = TokenTrie(std::move(entries));
}

void AddedTokenFinder::split(std::string_view text, const std::function<void(std::string_view)>& between,
                             const std::function<void(int32_t)>& found) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const TokenTrie::Match longest = trie_.longest(text.substr(at));
    if (longest.bytes == 0) {
      ++at;
      continue;
    }
    const AddedToken* match = &tokens_[static_cast<size_t>(longest.value)];
    const size_t end = at + longest.bytes;
    size_t begin = at;
    at = end;
    if (match->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (match->lstrip)
      while (begin > done && is_white_space(last_character(text.substr(done, begin - done)).code))
        begin -= last_character(text.substr(done, begin - done)).bytes;
    if (match->rstrip)
      while (at < text.size() && is_white_space(first_character(text.substr(at)).code))
        at += first_character(text.substr(at)).bytes;
    if (begin > done) between(text.substr(done, begin - done));
    found(match->id);
    done = at;
  }
  if (done < text.size()) between(text.substr(done));
}

}  // namespace plimsoll
