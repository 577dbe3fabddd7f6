// Tokens that a tokenizer.json looks for in a text as they are, before anything else: special ones and others.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;             ///< not inside of a word
  bool lstrip = false, rstrip = false;  ///< takes the white space before and behind it
  bool normalized = true;               ///< looked for after the normalizer, which changes it likewise
};

/// `added_tokens` of a tokenizer.json. Throws UserError that begins with `name`.
std::vector<AddedToken> read_added_tokens(const nlohmann::json& json, const std::string& name);

/// Finds some of them: the longest of those that begin first.
class AddedTokenFinder {
 public:
  /// `contents[i]` is what is looked for for `tokens[i]`; empty ones are not.
  void add(const AddedToken& token, const std::string& content);

  /// Calls between(text) and found(id) in the order of the text. `text` is valid UTF-8.
  void split(std::string_view text, const std::function<void(std::string_view)>& between,
             const std::function<void(int32_t)>& found) const;

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::array<std::vector<size_t>, 256> lengths_;  // of contents by their first byte, longest first
};

}  // namespace plimsoll
