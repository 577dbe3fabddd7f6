#include <algorithm>
#include <array>

#include "base/json_fields.h"
#include "base/unicode_text.h"
#include "data/tokenizers/byte_letters.h"
#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/text_steps.h"

namespace plimsoll {
namespace {

/// GPT-2's own, which ByteLevel splits by.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Published patterns of which no piece has a space behind something else, and none ends by what is behind a space:
/// a text may be cut before one (GPT-2; Llama 3 and cl100k; Qwen 2; SmolLM 3 and others by threes).
constexpr std::array kKnownPatterns = {
    kGpt2Pattern,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

/// Stretches of a text, one behind the other, each a match of the pattern or between two.
struct Stretch {
  size_t begin, end;
  bool match;
};

enum class Behavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_of(const JsonFields& fields, const char* fallback = nullptr) {
  const std::string word = fields.text("behavior", fallback);
  const std::array<const char*, 5> words = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
  const auto found = std::ranges::find(words, word);
  if (found == words.end())
    fields.refuse_value("behavior", "known are Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return static_cast<Behavior>(found - words.begin());
}

/// What of the stretches is a piece of its own, as the tokenizers package has it.
std::vector<Stretch> merged(std::vector<Stretch> all, Behavior behavior) {
  std::vector<Stretch> made;
  bool previous = false;
  switch (behavior) {
    case Behavior::removed:
      std::erase_if(all, [](const Stretch& each) { return each.match; });
      return all;
    case Behavior::isolated:
      return all;
    case Behavior::contiguous:
      for (const Stretch& each : all) {
        if (!made.empty() && each.match == previous)
          made.back().end = each.end;
        else
          made.push_back(each);
        previous = each.match;
      }
      return made;
    case Behavior::merged_with_previous:
      for (const Stretch& each : all) {
        if (each.match && !previous && !made.empty())
          made.back().end = each.end;
        else
          made.push_back(each);
        previous = each.match;
      }
      return made;
    case Behavior::merged_with_next:
      for (auto each = all.rbegin(); each != all.rend(); ++each) {
        if (each->match && !previous && !made.empty())
          made.back().begin = each->begin;
        else
          made.push_back(*each);
        previous = each->match;
      }
      std::ranges::reverse(made);
      return made;
  }
  return made;
}

using Matches = std::function<void(const std::string& text, const std::function<void(size_t, size_t)>& visit)>;

/// Cuts by matches; with `invert` what is no match counts as one.
PreTokenizer cutting(Matches matches, Behavior behavior, bool invert = false) {
  return [=](const std::vector<TextPiece>& pieces) {
    std::vector<TextPiece> made;
    for (const TextPiece& piece : pieces) {
      std::vector<Stretch> stretches;
      size_t at = 0;
      matches(piece.text, [&](size_t begin, size_t end) {
        if (begin > at) stretches.push_back({at, begin, invert});
        stretches.push_back({begin, end, !invert});
        at = end;
      });
      if (at < piece.text.size()) stretches.push_back({at, piece.text.size(), invert});
      for (const Stretch& each : merged(std::move(stretches), behavior))
        if (each.end > each.begin)
          made.push_back({piece.text.substr(each.begin, each.end - each.begin), piece.first && each.begin == 0});
    }
    return made;
  };
}

/// Each character of a kind.
template <typename Kind>
Matches characters(Kind is_of) {
  return [=](const std::string& text, const std::function<void(size_t, size_t)>& visit) {
    for (size_t at = 0; at < text.size();) {
      const Character first = first_character(std::string_view(text).substr(at));
      if (is_of(first.code)) visit(at, at + first.bytes);
      at += first.bytes;
    }
  };
}

Matches regex(const std::string& pattern, const std::string& name) {
  const auto compiled = std::make_shared<SplitPattern>(pattern, name);
  return [=](const std::string& text, const std::function<void(size_t, size_t)>& visit) {
    compiled->each_match(text, visit);
  };
}

Matches literal(const std::string& what) {
  return [=](const std::string& text, const std::function<void(size_t, size_t)>& visit) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) visit(at, at + what.size());
  };
}

/// \w+|[^\w\s]+
void words_and_others(const std::string& text, const std::function<void(size_t, size_t)>& visit) {
  const auto kind_of = [](int32_t code) { return is_word_character(code) ? 1 : is_white_space(code) ? 0 : 2; };
  size_t begin = 0;
  int kind = 0;
  for (size_t at = 0; at <= text.size();) {
    const bool ends = at == text.size();
    const Character first = ends ? Character{} : first_character(std::string_view(text).substr(at));
    const int next = ends ? 0 : kind_of(first.code);
    if (next != kind) {
      if (kind != 0) visit(begin, at);
      begin = at;
      kind = next;
    }
    if (ends) return;
    at += first.bytes;
  }
}

PreTokenizer in_order(std::vector<PreTokenizer> all) {
  return [all = std::move(all)](std::vector<TextPiece> pieces) {
    for (const PreTokenizer& each : all) pieces = each(std::move(pieces));
    return pieces;
  };
}

PreTokenizer split(const JsonFields& fields, StepTraits& traits) {
  const JsonFields pattern(fields.at("pattern"), fields.name());
  const Behavior behavior = behavior_of(fields);
  const bool invert = fields.boolean("invert", false);
  if (!pattern.at("Regex").is_null()) {
    const std::string text = pattern.text("Regex");
    const bool known = std::ranges::find(kKnownPatterns, text) != kKnownPatterns.end();
    if (known && behavior == Behavior::isolated)
      traits.splits_words = true;
    else
      traits.can_be_cut = false;
    return cutting(regex(text, fields.name()), behavior, invert);
  }
  const std::string what = pattern.text("String");
  if (what.empty()) fields.refuse("a Split looks for an empty text");
  // With the normalizers done there may be no space to look for.
  if (what.find(' ') != std::string::npos && !traits.replaces_spaces) traits.can_be_cut = false;
  if (what.find(kLowLine) != std::string::npos) traits.can_be_cut = false;
  return cutting(literal(what), behavior, invert);
}

PreTokenizer byte_level(const JsonFields& fields, StepTraits& traits) {
  traits.byte_letters = true;
  const bool prefix = fields.boolean("add_prefix_space", true);
  std::vector<PreTokenizer> steps;
  if (prefix)
    steps.push_back([](std::vector<TextPiece> pieces) {
      for (TextPiece& each : pieces)
        if (!each.text.starts_with(' ')) each.text.insert(0, " ");
      return pieces;
    });
  if (fields.boolean("use_regex", true)) {
    traits.splits_words = true;
    steps.push_back(cutting(regex(kGpt2Pattern, fields.name()), Behavior::isolated));
  }
  steps.push_back([](std::vector<TextPiece> pieces) {
    for (TextPiece& each : pieces) {
      std::string letters;
      append_letters(each.text, letters);
      each.text = std::move(letters);
    }
    return pieces;
  });
  return in_order(std::move(steps));
}

PreTokenizer metaspace(const JsonFields& fields, StepTraits& traits) {
  const std::string stands = fields.text("replacement", std::string(kLowLine).c_str());
  if (stands.empty() || first_character(stands).bytes != stands.size())
    fields.refuse_value("replacement", "it must be one character");
  const std::string scheme =
      fields.text("prepend_scheme", fields.boolean("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fields.refuse_value("prepend_scheme", "known are always, first, never");
  if (stands == kLowLine)
    traits.replaces_spaces = true;
  else
    traits.can_be_cut = false;
  std::vector<PreTokenizer> steps = {[=](std::vector<TextPiece> pieces) {
    for (TextPiece& each : pieces) {
      std::string made;
      for (const char c : each.text) {
        if (c == ' ')
          made += stands;
        else
          made.push_back(c);
      }
      const bool prepend = scheme == "always" || (scheme == "first" && each.first);
      each.text = prepend && !made.starts_with(stands) ? stands + made : std::move(made);
    }
    return pieces;
  }};
  if (fields.boolean("split", true)) {
    traits.splits_words = true;
    steps.push_back(cutting(literal(stands), Behavior::merged_with_next));
  }
  return in_order(std::move(steps));
}

PreTokenizer read_pre_tokenizer_step(const nlohmann::json& json, const std::string& name, StepTraits& traits,
                                     int depth) {
  const JsonFields fields(json, name + ": pre_tokenizer");
  const std::string type = fields.text("type");
  if (type == "Sequence" && depth < 8) {
    std::vector<PreTokenizer> all;
    for (const nlohmann::json& each : fields.list("pretokenizers", kMostSteps))
      all.push_back(read_pre_tokenizer_step(each, name, traits, depth + 1));
    return in_order(std::move(all));
  }
  if (type == "ByteLevel") return byte_level(fields, traits);
  if (type == "Split") return split(fields, traits);
  if (type == "Metaspace") return metaspace(fields, traits);
  if (type == "Digits")
    return cutting(characters(is_number),
                   fields.boolean("individual_digits", false) ? Behavior::isolated : Behavior::contiguous);
  if (type == "Punctuation") {
    const Behavior behavior = behavior_of(fields, "Isolated");
    return cutting(characters(is_punctuation), behavior);
  }
  const bool bert = type == "BertPreTokenizer";
  if (type != "Whitespace" && type != "WhitespaceSplit" && !bert)
    fields.refuse_value("type",
                        "known are ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation, "
                        "BertPreTokenizer, Sequence");
  traits.splits_words = true;
  if (type == "Whitespace") return cutting(words_and_others, Behavior::removed, /*invert=*/true);
  PreTokenizer words = cutting(characters(is_white_space), Behavior::removed);
  if (!bert) return words;
  return in_order({words, cutting(characters(is_punctuation), Behavior::isolated)});
}

}  // namespace

PreTokenizer read_pre_tokenizer(const nlohmann::json& json, const std::string& name, StepTraits& traits) {
  if (json.is_null()) return [](std::vector<TextPiece> pieces) { return pieces; };
  return read_pre_tokenizer_step(json, name, traits, 0);
}

}  // namespace plimsoll
