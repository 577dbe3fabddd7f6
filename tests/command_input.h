// Declares what a user gives the program, a job file and words, and changes of it.
#pragma once

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

namespace plimsoll::advice_testing {

/// A job file with a key a line, and the words of a command line.
struct Input {
  std::string file;
  std::vector<std::string> words;

  bool operator==(const Input&) const = default;
  std::string text() const {
    std::string text = "plimsoll";
    for (const std::string& word : words) text += " '" + word + "'";
    return text + "\n" + file;
  }
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

inline std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const size_t at = from.empty() ? text.npos : text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return text;
}

/// Returns all matches of a pattern.
inline std::vector<std::string> matches_in(const std::string& text, const std::string& pattern) {
  std::vector<std::string> all;
  const std::regex expression(pattern);
  for (auto at = std::sregex_iterator(text.begin(), text.end(), expression); at != std::sregex_iterator(); ++at)
    all.push_back(at->str());
  return all;
}

/// Returns the parts of a text between matches of a pattern.
inline std::vector<std::string> split(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return {std::sregex_token_iterator(text.begin(), text.end(), expression, -1), std::sregex_token_iterator()};
}

/// Removes an option, and its value if that is a word of its own.
inline void remove_word(Input& input, const std::string& word, bool last = false) {
  auto at = std::ranges::find(input.words, word);
  for (auto next = at; last && next != input.words.end(); ++next)
    if (*next == word) at = next;
  if (at == input.words.end()) return;
  const bool has_value = word.starts_with("--") && word.find('=') == word.npos;
  at = input.words.erase(at);
  if (has_value && at != input.words.end() && !at->starts_with("--") && !at->ends_with(".yaml") &&
      at->find('=') == at->npos)
    input.words.erase(at);
}

/// Removes a key or an option from the command line and from the file. Returns false if the input does not have it.
inline bool remove_key(Input& input, const std::string& key) {
  std::vector<std::string> lines = lines_of(input.file);
  bool any = std::erase_if(lines, [&](const std::string& line) { return line.starts_with(key + ":"); }) > 0;
  input.file = text_of(lines);
  for (const std::string& word : std::vector(input.words))
    if (word.starts_with(key + "=") || (key.starts_with("--") && word == key)) {
      remove_word(input, word);
      any = true;
    }
  return any;
}

}  // namespace plimsoll::advice_testing
