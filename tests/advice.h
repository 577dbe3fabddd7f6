// Declares a reader of the advice in messages: it finds what a message says to write, and writes it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "command_input.h"
#include "plimsoll/job.h"

namespace plimsoll::advice_testing {

/// A piece of advice: its place in the message, and the input that follows it.
struct Advice {
  size_t begin = 0, end = 0;
  std::string text;
  Input followed;
};

/// Values for words that stand for a value of the user (VALUE, N, FILE), and for keys that a message names without one.
using Samples = std::map<std::string, std::string>;

/// Reads the advice of one message about one input.
class AdviceReader {
 public:
  /// `max_names`: number of names to try of a list of them.
  AdviceReader(std::string message, Input input, Samples samples, size_t max_names = 100)
      : message_(std::move(message)), input_(std::move(input)), samples_(std::move(samples)), max_names_(max_names) {
    // The advice comes behind what is wrong; some messages have no semicolon between them.
    advice_begin_ = std::min(message_.find(';'), message_.size());
    for (const char* word : {"write ", "set ", "for example ", "is missing: "})
      if (const size_t at = message_.find(word); at != message_.npos) advice_begin_ = std::min(advice_begin_, at);
    find_culprit();
    assignments();
    names();
    removals();
    commands();
    options();
    syntax();
  }

  const std::vector<Advice>& all() const { return all_; }

  /// Returns the parts of the message that sound like advice, and in which none was found.
  std::vector<std::string> not_understood() const {
    static const std::regex advice(
        "did you mean|for example|such as|allowed:|stands? (without|in|by|behind)|there are [a-z]|"
        "(^|[;:,] |\\bor |\\band |\\bin its place )(set|use|write|give|remove|name|add|leave|raise|lower|choose|make|"
        "list|run|save|put|compare|delete|convert|start)\\b");
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < message_.size();) {
      const size_t end = std::min(message_.find("; ", begin), message_.size());
      const std::string part = message_.substr(begin, end - begin);
      const bool understood =
          std::ranges::any_of(all_, [&](const Advice& each) { return each.begin < end + 2 && each.end > begin; });
      if (!understood && std::regex_search(part, advice)) parts.push_back(part);
      begin = end + 2;
    }
    return parts;
  }

 private:
  using Groups = std::vector<std::string>;
  using Found = std::function<void(const Groups&, size_t begin, size_t end)>;
  static constexpr const char* kKey = "([a-z][a-z_0-9]*(?:\\.[a-z_0-9]+)*)";

  /// Calls `call` with the groups of each match at or behind `from`.
  void each_match(const std::string& pattern, size_t from, const Found& call) const {
    if (from >= message_.size()) return;
    const std::regex expression(pattern);
    const auto begin_at = message_.begin() + static_cast<std::ptrdiff_t>(from);
    for (auto at = std::sregex_iterator(begin_at, message_.end(), expression); at != std::sregex_iterator(); ++at) {
      const size_t begin = from + static_cast<size_t>(at->position());
      call(Groups(at->begin(), at->end()), begin, begin + static_cast<size_t>(at->length()));
    }
  }

  /// Returns the first group of the first match; "" if there is none.
  std::string first_match(const std::string& pattern) const {
    std::smatch found;
    return std::regex_search(message_, found, std::regex(pattern)) ? found[1].str() : "";
  }

  void add(size_t begin, size_t end, Input followed) {
    all_.push_back({begin, end, message_.substr(begin, end - begin), std::move(followed)});
  }

  /// Finds the word or the line that the message is about, and the part of it that is wrong.
  void find_culprit() {
    for (const std::string& word : input_.words)
      if (message_.find("command line: " + word + ": ") != message_.npos) culprit_word_ = word;
    if (const std::string line = first_match("^(?:plimsoll: )?job\\.yaml:([0-9]+)"); !line.empty())
      culprit_line_ = std::stoul(line);
    for (const char* pattern :
         {"[a-z_.]+ is '([^']*)', did you mean", "unknown (?:key|command|option|GPU|link) '([^']*)'",
          "has no segment '([^']*)'", "GPU '([^']*)' is not one device",
          "'([^']*)' (?:is not an override|is none|is no |is not )", "value '([^']*)'", "(?:job file|--gpu:) '([^']*)'",
          "--[a-z-]+ is '?([^'; ,]*)'?(?: bytes|, a folder)?;", "(?:: |^)[a-z_.]+ is wrong: '([^']*)'",
          "(?:: |^)[a-z_.]+ is '([^']*)'", "(?:: |^)[a-z_.]+ is ([^ ,;]+)[,;]",
          "(?:: |^)[a-z_.]+: ([^ ;]+) does not exist"})
      if (wrong_.empty()) wrong_ = first_match(pattern);
    key_ = first_match("(?:: |^)" + std::string(kKey) + "(?: is | has |: )");
    if (!culprit_word_.empty() || culprit_line_ > 0 || wrong_.empty()) return;
    for (const std::string& word : input_.words)
      if (word == wrong_ || word.starts_with(wrong_ + "=")) culprit_word_ = word;
    for (const std::string& word : input_.words)
      if (culprit_word_.empty() && word.find(wrong_) != word.npos) culprit_word_ = word;
  }

  std::string sample(const std::string& word) const {
    const auto found = samples_.find(word);
    return found == samples_.end() ? word : found->second;
  }

  // Changes of the input.

  /// Returns the input with `text` in place of what is wrong.
  Input with(const std::string& text) const {
    const auto edit = [&](const std::string& whole, const std::string& separator) {
      if (!wrong_.empty() && whole.find(wrong_) != whole.npos) return replaced(whole, wrong_, text);
      const size_t cut = whole.find(separator);
      return cut == whole.npos ? text : whole.substr(0, cut + separator.size()) + text;
    };
    if (culprit_word_.empty()) return with_line([&](const std::string& line) { return edit(line, ": "); });
    Input result = input_;
    *std::ranges::find(result.words, culprit_word_) = edit(culprit_word_, "=");
    return result;
  }

  /// Returns the input with another text of the line that the message names.
  Input with_line(const std::function<std::string(const std::string&)>& edit) const {
    Input result = input_;
    std::vector<std::string> lines = lines_of(input_.file);
    if (culprit_line_ == 0 || culprit_line_ > lines.size()) return result;
    lines[culprit_line_ - 1] = edit(lines[culprit_line_ - 1]);
    result.file = text_of(lines);
    return result;
  }

  Input without_culprit() const {
    Input result = input_;
    if (!culprit_word_.empty()) {
      // "memory_budget = 4GiB": a key as a word, and its value.
      const bool key = message_.find("is not an override") != message_.npos && !culprit_word_.starts_with("--");
      const auto at = std::ranges::find(result.words, culprit_word_);
      key ? void(result.words.erase(at, result.words.end())) : remove_word(result, culprit_word_);
      return result;
    }
    std::vector<std::string> lines = lines_of(input_.file);
    if (culprit_line_ > 0 && culprit_line_ <= lines.size())
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(culprit_line_) - 1);
    result.file = text_of(lines);
    return result;
  }

  /// Returns the names of keys and options before a place of the message.
  std::vector<std::string> names_before(size_t end) const {
    return matches_in(message_.substr(0, end), "(?:--)?[a-z][a-z_0-9-]*(?:\\.[a-z_0-9]+)*");
  }

  // Kinds of advice.

  /// Returns the end of a value that begins at `at`: a list, a mapping, a text in quotes, a word.
  size_t value_end(size_t at) const {
    if (at >= message_.size()) return at;
    for (const char* pair : {"[]", "{}", "\"\"", "''"})
      if (message_[at] == pair[0])
        if (const size_t end = message_.find(pair[1], at + 1); end != message_.npos) return end + 1;
    size_t end = std::min(message_.find_first_of(" ,;()'?\n", at), message_.size());
    while (end > at && (message_[end - 1] == '.' || message_[end - 1] == ':')) --end;
    return end;
  }

  /// "set KEY: VALUE", "for example KEY=VALUE", "stands without dashes: KEY=VALUE"; two of them with "and" or "with".
  void assignments() {
    struct Assignment {
      size_t begin, end;
      std::string key, value;
    };
    std::vector<Assignment> found;
    each_match(std::string(kKey) + "(=|: )", advice_begin_, [&](const Groups& groups, size_t begin, size_t end) {
      const std::string before = message_.substr(0, begin);
      const bool quoted = before.ends_with("'");
      const size_t last = quoted ? std::min(message_.find('\'', end), message_.size()) : value_end(end);
      const std::string value = message_.substr(end, last - end);
      // "KEY: VALUE" may also be a sentence with a colon, and the syntax of a line.
      const bool is_one = groups[2] == "=" || is_job_key(groups[1]) || before.ends_with("example ") ||
                          before.ends_with("set ") || before.ends_with("or ");
      const bool is_line = before.ends_with("write ") && culprit_line_ > 0 && groups[2] == ": ";
      const bool is_command = value.find("plimsoll ") != value.npos;
      if (groups[1] == "key.path" || is_line || is_command || before.ends_with("in quotes: '")) return;
      if (!value.empty() && is_one) found.push_back({begin, last, groups[1], value});
    });
    static const std::regex replaces(
        "unknown (key|option)|is no key here|is not taken|is not an override|it is a section|in its place");
    const bool in_place = std::regex_search(message_, replaces);
    const bool in_place_of_both = message_.find("in place of both") != message_.npos;
    const auto set = [&](Input& input, const std::string& key, const std::string& value) {
      remove_key(input, key);
      input.words.push_back(key + "=" + sample(value));
    };
    const auto base = [&](size_t begin) {
      Input followed = in_place ? without_culprit() : input_;
      if (in_place_of_both)
        for (const std::string& name : names_before(begin)) remove_key(followed, name);
      return followed;
    };
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t begin = found[i].begin;
      Input followed = base(begin);
      set(followed, found[i].key, found[i].value);
      while (i + 1 < found.size()) {
        const std::string between = message_.substr(found[i].end, found[i + 1].begin - found[i].end);
        if (between != " and " && between != " with " && between != " ") break;
        ++i;
        set(followed, found[i].key, found[i].value);
      }
      add(begin, found[i].end, std::move(followed));
    }
    // "set KEY", without a value
    each_match("(?:set|raise|lower|name|larger|smaller|or|and|in) " + std::string(kKey) + "(?![a-z_0-9.]*[=:])",
               advice_begin_, [&](const Groups& groups, size_t begin, size_t end) {
                 if (!is_job_key(groups[1]) || !samples_.contains(groups[1])) return;
                 Input followed = base(begin);
                 set(followed, groups[1], groups[1]);
                 add(begin, end, std::move(followed));
               });
    // "model.channels is 3: set it to 2"
    each_match(std::string(kKey) + " is [^:;]*: set it to ([^ ,;]+)", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 Input followed = input_;
                 set(followed, groups[1], groups[2]);
                 add(begin, end, std::move(followed));
               });
  }

  /// Names and values to choose from: "did you mean 'X' or 'Y'?", "allowed: a, b", "there are plan, train".
  void names() {
    const auto one = [&](const std::string& pattern) {
      each_match(pattern, 0, [&](const Groups& groups, size_t begin, size_t end) { add(begin, end, with(groups[1])); });
    };
    const auto list = [&](const std::string& pattern) {
      each_match(pattern, 0, [&](const Groups& groups, size_t begin, size_t end) {
        std::vector<std::string> words = matches_in(groups[1], "'[^']*'|[^ ,']+");
        std::erase_if(words, [](const std::string& word) { return word == "or" || word == "and"; });
        words.resize(std::min(words.size(), max_names_));
        for (std::string word : words) {
          if (word.starts_with('\'')) word = word.substr(1, word.size() - 2);
          add(begin, end, with(word));
        }
      });
    };
    list("did you mean ([^?]*)\\?");
    list("\\(for example ([0-9][0-9 or.]*)\\)");
    list("for example ([0-9.]+[A-Za-z]*(?: or [0-9.]+[A-Za-z]*)?)(?=$|[,;.?\n])");
    list("(?:there are|it has|what the file is:) ((?:[a-z_0-9-]+(?:, | and | or )?)+)(?:; name one)?");
    one("is ([0-9.]+[A-Za-z]+) meant\\?");
    one("for example (\\{[^}]*\\}|'[^'=]*')");
    one("(?:write|two numbers:|of the files:|behind the colon:) ([\\[{][^\\]}]*[\\]}])");
    one("such as (?:the newest: )?'?([^ ';,\n]+)'?");
    each_match("allowed: ([^;\n]*)", 0,
               [&](const Groups& groups, size_t begin, size_t end) { allowed(groups[1], begin, end); });
    each_match("number from (\\S+) to ([^; \n]+)", 0, [&](const Groups& groups, size_t begin, size_t end) {
      for (const size_t bound : {1, 2}) add(begin, end, with(groups[bound]));
    });
    each_match("(?:with keys of its own|keys of ([a-z.]+)|the job file has): ([a-z_0-9]+(?:, [a-z_0-9]+)*)", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 const std::string section = groups[1].empty() ? key_ : groups[1];
                 for (const std::string& name : matches_in(groups[2], "[a-z_0-9]+")) {
                   Input followed = without_culprit();
                   followed.words.push_back((section.empty() ? "" : section + ".") + name + "=1");
                   add(begin, end, std::move(followed));
                 }
               });
  }

  /// "auto, integer from 1 to 100 or none", "number in [0, 1)", "an amount above 0 such as 8GiB, 8GB".
  void allowed(std::string list, size_t begin, size_t end) {
    list.resize(std::min(list.find(" ("), list.size()));
    for (const char* begins : {"a ", "an amount of ", "whole "})
      if (list.starts_with(begins)) return;  // a description, with examples behind it
    std::vector<std::string> values;
    static const std::regex item(
        "(?:integer|number) from (\\S+) to (\\S+)|number (>=|>|in \\[|in \\() ?([^ ,]+)(?:, \\S+[\\])])?|"
        "'([^']*)'|([A-Za-z0-9_.-]+)(?=,|$| or|\\))");
    for (auto at = std::sregex_iterator(list.begin(), list.end(), item); at != std::sregex_iterator(); ++at) {
      const std::smatch& found = *at;
      for (const size_t group : {1, 2, 5, 6})
        if (found[group].matched && found[group] != "or") values.push_back(found[group]);
      // An open bound is not allowed itself, but a number above it is.
      const bool open = found[3] == ">" || found[3] == "in (";
      if (found[4].matched) values.push_back(open ? std::to_string(std::stod(found[4]) + 0.01) : found[4].str());
    }
    values.resize(std::min(values.size(), max_names_));
    for (const std::string& value : values) add(begin, end, with(value));
  }

  /// "leave it out", "remove batch_size", "leave one of them out", "give it once".
  void removals() {
    each_match("leave it out|remove it", 0, [&](const Groups&, size_t begin, size_t end) {
      const std::string option = first_match("(--[a-z-]+) goes with");
      Input followed = option.empty() ? without_culprit() : input_;
      if (!option.empty()) remove_key(followed, option);
      add(begin, end, std::move(followed));
    });
    // "remove A, or B and C"
    const std::string name = "(?:--)?[A-Za-z][A-Za-z_.-]*";
    each_match("(?:remove|leave out|leave) (" + name + "(?:,? (?:or|and) " + name + "|, " + name + ")*)", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 for (const std::string& all : split(groups[1], ",? or ")) {
                   Input followed = input_;
                   bool any = false;
                   for (const std::string& one : split(all, ",? and |, ")) any |= remove_key(followed, one);
                   if (any) add(begin, end, std::move(followed));
                 }
               });
    each_match(
        "(?:leave one of them|leave one|remove one of (?:them|the three)|remove one|leave the other|give one of them|"
        "set only one of them|leave these keys)(?: out)?",
        0, [&](const Groups&, size_t begin, size_t end) {
          for (const std::string& each : names_before(begin)) {
            Input followed = input_;
            if (remove_key(followed, each)) add(begin, end, std::move(followed));
          }
        });
    each_match("(--[a-z-]+) is given twice; give it once", 0, [&](const Groups& groups, size_t begin, size_t end) {
      Input followed = input_;
      remove_word(followed, groups[1], /*last=*/true);
      add(begin, end, std::move(followed));
    });
  }

  /// "plimsoll plan JOB.yaml --gpu NAME", "it is one of plimsoll plan".
  void commands() {
    each_match("it is one of plimsoll ([a-z]+(?: and [a-z]+)*)", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 for (const std::string& command : split(groups[1], " and ")) {
                   Input followed = input_;
                   followed.words.front() = command;
                   add(begin, end, std::move(followed));
                 }
               });
    each_match("[';:,] ?plimsoll ([A-Za-z]+(?: [^';\n]*)?)", 0, [&](const Groups& groups, size_t begin, size_t end) {
      Input followed = input_;
      followed.words = split(groups[1], " +");
      for (std::string& word : followed.words)
        if (!word.starts_with("--")) word = sample(word);
      add(begin, end, std::move(followed));
    });
  }

  /// "add --devices N", "name one with --gpu", "--gpu needs a value: NAME", "an empty value; write one".
  void options() {
    each_match("(?:add|one with|give|use|with commas:) (--[a-z-]+)(?: ([A-Za-z0-9,._-]+))?", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 Input followed = input_;
                 if (message_.find("with commas") != message_.npos) {
                   remove_key(followed, groups[1]);
                   std::erase(followed.words, wrong_);
                 }
                 followed.words.push_back(groups[1]);
                 std::string value = groups[2];
                 for (const auto& [word, instead] : samples_)
                   if (value == word || value.starts_with(word + ",")) value = replaced(value, word, instead);
                 if (groups[2].empty()) value = samples_.contains(groups[1]) ? sample(groups[1]) : "";
                 if (!value.empty()) followed.words.push_back(value);
                 add(begin, end, std::move(followed));
               });
    each_match("--[a-z-]+ goes with (--[a-z-]+) alone: give that too", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 Input followed = input_;
                 followed.words.push_back(groups[1]);
                 add(begin, end, std::move(followed));
               });
    each_match("(--[a-z-]+) needs a value(?:: ([A-Za-z]+))?", 0, [&](const Groups& groups, size_t begin, size_t end) {
      Input followed = input_;
      const auto at = std::ranges::find(followed.words, groups[1]);
      const std::string value = sample(groups[2].empty() ? "VALUE" : groups[2]);
      if (at != followed.words.end()) followed.words.insert(at + 1, value);
      add(begin, end, std::move(followed));
    });
    each_match("(--[a-z-]+): an empty value; (?:write one|name a file)", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 Input followed = input_;
                 const auto at = std::ranges::find(followed.words, "");
                 if (at != followed.words.end()) *at = sample(groups[1]);
                 add(begin, end, std::move(followed));
               });
  }

  /// Lines of the job file and quotes: "write max_steps: 4", "a value with a space stands in quotes: 'a=b c'".
  void syntax() {
    const auto rewrite = [&](const std::string& advice, const std::string& from, const std::string& to) {
      each_match(advice, 0, [&](const Groups&, size_t begin, size_t end) {
        add(begin, end,
            with_line([&](const std::string& line) { return std::regex_replace(line, std::regex(from), to); }));
      });
    };
    rewrite("write a colon and a space in place of =", " *= *", ": ");
    rewrite("leave the '- ' before its keys out", "^- ", "");
    rewrite("use single quotes or none", "\"", "'");
    rewrite("use single quotes or none", "\"", "");
    rewrite("a number has a point: 0\\.001", "0,001", "0.001");
    rewrite("YAML takes spaces alone", "\t", "  ");
    each_match("write ([a-z_.]+): ([^;]+)", 0, [&](const Groups& groups, size_t begin, size_t end) {
      if (culprit_line_ == 0) return;
      const std::regex pair(groups[1] + "[ :=]+[^ ,}]+");
      add(begin, end, with_line([&](const std::string& line) {
            return std::regex_replace(line, pair, groups[1] + ": " + groups[2]);
          }));
    });
    each_match("a pattern that (?:has brackets|begins with \\*) stands in quotes", 0,
               [&](const Groups&, size_t begin, size_t end) {
                 const std::regex pattern("([\\[, =:])([a-z.]*(?:\\*[a-z.*]*|\\.\\[0-9\\][a-z.]*))");
                 const auto quote = [&](const std::string& text) {
                   return std::regex_replace(text, pattern, "$1'$2'");
                 };
                 Input followed = with_line(quote);
                 for (std::string& word : followed.words)
                   if (word == culprit_word_) word = quote(word);
                 add(begin, end, std::move(followed));
               });
    each_match("a value with a space stands in quotes: '([^']*)'", 0,
               [&](const Groups& groups, size_t begin, size_t end) {
                 Input followed = input_;
                 const auto at = std::ranges::find(followed.words, culprit_word_);
                 if (at == followed.words.end() || at == followed.words.begin()) return;
                 *(at - 1) = groups[1];
                 followed.words.erase(at);
                 add(begin, end, std::move(followed));
               });
  }

  std::string message_;
  Input input_;
  Samples samples_;
  size_t max_names_;
  size_t advice_begin_ = 0;
  std::string culprit_word_;  ///< the word of the command line that the message is about
  size_t culprit_line_ = 0;   ///< the line of the job file, counted from 1; 0: none
  std::string wrong_;         ///< the part of it that is wrong
  std::string key_;           ///< the first key that the message names
  std::vector<Advice> all_;
};

/// Returns what is wrong, without the place and without the values: equal for the same error about another value.
inline std::string kind_of(const std::string& message, const Input& input) {
  std::string kind = message.substr(0, message.find('\n'));
  for (const std::string& word : input.words) kind = replaced(kind, "command line: " + word + ": ", "");
  kind = std::regex_replace(kind, std::regex("^(plimsoll: )?(\\S*job\\.yaml:[0-9]+(:[0-9]+)?: )?"), "");
  const size_t end = std::min(kind.find(';'), kind.size());
  const std::string what = std::regex_replace(kind.substr(0, end), std::regex("'[^']*'|[0-9][0-9.]*"), "_");
  // Several errors begin with "KEY is VALUE"; the next words tell them apart.
  std::smatch rule;
  const bool has_rule = what.ends_with(" is _") && std::regex_search(kind, rule, std::regex("; (a|it) \\S+"));
  return has_rule ? what + rule.str() : what;
}

}  // namespace plimsoll::advice_testing
