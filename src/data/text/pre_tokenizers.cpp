#include <algorithm>
#include <array>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "data/text/bpe_ranks.h"
#include "data/text/split_pattern.h"
#include "data/text/text_steps.h"

namespace plimsoll {
namespace {

/// GPT-2's own pattern, by which ByteLevel splits.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Published patterns by which no piece has a space after another character, and no piece's end depends on the text
/// after a space. A text may be cut before a space (GPT-2; Llama 3 and cl100k; Qwen 2; SmolLM 3 and others with groups
/// of three digits).
constexpr std::array kKnownPatterns = {
    kGpt2Pattern,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

/// A stretch of a text: a match of the pattern, or the text between two matches.
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

/// A joiner of stretches to pieces, as in the tokenizers package. It passes each piece on as soon as its end is known.
class Joiner {
 public:
  Joiner(std::string_view text, bool first, Behavior behavior, const PieceVisit& visit)
      : text_(text), first_(first), behavior_(behavior), visit_(visit) {}

  void add(const Stretch& next) {
    if (behavior_ == Behavior::removed) {
      if (!next.match) pass(next);
    } else if (behavior_ == Behavior::isolated) {
      pass(next);
    } else if (has_waiting_ && joins(next)) {
      waiting_.end = next.end;
      last_match_ = next.match;
    } else {
      finish();
      waiting_ = next;
      has_waiting_ = true;
      last_match_ = next.match;
    }
  }
  void finish() {
    if (has_waiting_) pass(waiting_);
    has_waiting_ = false;
  }

 private:
  bool joins(const Stretch& next) const {
    if (behavior_ == Behavior::contiguous) return next.match == last_match_;
    if (behavior_ == Behavior::merged_with_previous) return next.match && !last_match_;
    return !next.match && last_match_;
  }
  void pass(const Stretch& piece) const {
    if (piece.end > piece.begin) visit_(text_.substr(piece.begin, piece.end - piece.begin), first_ && piece.begin == 0);
  }

  std::string_view text_;
  bool first_;
  Behavior behavior_;
  const PieceVisit& visit_;
  Stretch waiting_{};
  bool has_waiting_ = false, last_match_ = false;
};

using MatchVisit = std::function<void(size_t begin, size_t end)>;
using Matches = std::function<void(std::string_view text, const MatchVisit& visit)>;

/// Returns a pre-tokenizer that cuts by matches; with `invert` the text between matches counts as a match.
PreTokenizer cutting(Matches matches, Behavior behavior, bool invert = false) {
  return [=](std::string_view text, bool first, const PieceVisit& visit) {
    Joiner joiner(text, first, behavior, visit);
    size_t at = 0;
    matches(text, [&](size_t begin, size_t end) {
      if (begin > at) joiner.add({at, begin, invert});
      joiner.add({begin, end, !invert});
      at = end;
    });
    if (at < text.size()) joiner.add({at, text.size(), invert});
    joiner.finish();
  };
}

/// Finds each character of a kind.
template <typename Kind>
Matches characters(Kind is_of) {
  return [=](std::string_view text, const MatchVisit& visit) {
    for (size_t at = 0; at < text.size();) {
      const Character first = first_character(text.substr(at));
      if (is_of(first.code)) visit(at, at + first.bytes);
      at += first.bytes;
    }
  };
}

Matches regex(const std::string& pattern, const std::string& name) {
  const auto compiled = std::make_shared<SplitPattern>(pattern, name);
  return [=](std::string_view text, const MatchVisit& visit) { compiled->each_match(text, visit); };
}

Matches literal(const std::string& what) {
  return [=](std::string_view text, const MatchVisit& visit) { each_occurrence(text, what, visit); };
}

/// Finds the matches of \w+|[^\w\s]+.
void words_and_others(std::string_view text, const MatchVisit& visit) {
  const auto kind_of = [](int32_t code) { return is_word_character(code) ? 1 : is_white_space(code) ? 0 : 2; };
  size_t begin = 0;
  int kind = 0;
  for (size_t at = 0; at <= text.size();) {
    const bool ends = at == text.size();
    const Character first = ends ? Character{} : first_character(text.substr(at));
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

/// The remaining steps of a list, for the pieces of the step before.
struct RestOfSteps {
  const std::vector<PreTokenizer>& all;
  size_t next;
  const PieceVisit& visit;

  void take(std::string_view piece, bool first) const {
    if (next == all.size()) return visit(piece, first);
    const RestOfSteps rest{all, next + 1, visit};
    // One reference: it fits into the function object, which then allocates nothing.
    all[next](piece, first, [&rest](std::string_view each, bool begins) { rest.take(each, begins); });
  }
};

PreTokenizer in_order(std::vector<PreTokenizer> all) {
  return [all = std::move(all)](std::string_view piece, bool first, const PieceVisit& visit) {
    RestOfSteps{all, 0, visit}.take(piece, first);
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
  // The normalizers may have left no space to find.
  if (what.find(' ') != std::string::npos && !traits.replaces_spaces) traits.can_be_cut = false;
  if (what.find(kLowLine) != std::string::npos) traits.can_be_cut = false;
  return cutting(literal(what), behavior, invert);
}

PreTokenizer byte_level(const JsonFields& fields, StepTraits& traits) {
  traits.byte_letters = true;
  const bool prefix = fields.boolean("add_prefix_space", true);
  std::vector<PreTokenizer> steps;
  if (prefix)
    steps.push_back([](std::string_view piece, bool first, const PieceVisit& visit) {
      if (piece.starts_with(' ')) return visit(piece, first);
      visit(std::string(" ").append(piece), first);
    });
  if (fields.boolean("use_regex", true)) {
    traits.splits_words = true;
    steps.push_back(cutting(regex(kGpt2Pattern, fields.name()), Behavior::isolated));
  }
  steps.push_back([](std::string_view piece, bool first, const PieceVisit& visit) {
    std::string letters;
    append_letters(piece, letters);
    visit(letters, first);
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
  if (fields.at("add_prefix_space").is_boolean() && fields.at("add_prefix_space") == (scheme == "never"))
    fields.refuse_value("prepend_scheme", "add_prefix_space says something else; make them agree");
  if (stands == kLowLine)
    traits.replaces_spaces = true;
  else
    traits.can_be_cut = false;
  std::vector<PreTokenizer> steps = {[=](std::string_view piece, bool first, const PieceVisit& visit) {
    std::string made;
    for (const char c : piece) {
      if (c == ' ')
        made += stands;
      else
        made.push_back(c);
    }
    const bool prepend = scheme == "always" || (scheme == "first" && first);
    if (prepend && !made.starts_with(stands)) made.insert(0, stands);
    visit(made, first);
  }};
  if (fields.boolean("split", true)) {
    traits.splits_words = true;
    steps.push_back(cutting(literal(stands), Behavior::merged_with_next));
  }
  return in_order(std::move(steps));
}

/// Counts of the steps of a file that were read before.
struct StepsSeen {
  size_t steps = 0, byte_level = 0, metaspace = 0;
};

PreTokenizer read_pre_tokenizer_step(const nlohmann::json& json, const std::string& name, StepTraits& traits,
                                     StepsSeen& seen, int depth) {
  const JsonFields fields(json, name + ": pre_tokenizer");
  if (++seen.steps > kMaxTextSteps) fields.refuse(fmt::format("it has more than {} steps", kMaxTextSteps));
  const std::string type = fields.text("type");
  // Each of the two makes a text longer. A second one would not find the characters of the original text.
  if ((type == "ByteLevel" && seen.byte_level++ > 0) || (type == "Metaspace" && seen.metaspace++ > 0))
    fields.refuse(fmt::format("it has more than one {}", type));
  if (type == "Sequence" && depth < 8) {
    std::vector<PreTokenizer> all;
    for (const nlohmann::json& each : fields.list("pretokenizers", kMaxTextSteps))
      all.push_back(read_pre_tokenizer_step(each, name, traits, seen, depth + 1));
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
  if (json.is_null()) return [](std::string_view piece, bool first, const PieceVisit& visit) { visit(piece, first); };
  StepsSeen seen;
  return read_pre_tokenizer_step(json, name, traits, seen, 0);
}

}  // namespace plimsoll
