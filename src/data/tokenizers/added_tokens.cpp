#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/unicode_text.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll {
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
